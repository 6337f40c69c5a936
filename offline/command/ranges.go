package command

import "fmt"

// InRange returns an error that names a number outside its range, as one that is no number is.
func InRange[T int | float64](name string, x, low, high T) error {
	if x >= low && x <= high {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v to %v", name, x, low, high)
}
