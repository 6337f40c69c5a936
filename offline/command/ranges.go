package command

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// CheckRanges holds each number of a struct, given by its address, to the range in its tag, as in
// `range:"0,1"`: both ends are allowed. An error has the name that the number has in YAML.
func CheckRanges(settings any) error {
	v := reflect.ValueOf(settings).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		low, high, ranged := strings.Cut(field.Tag.Get("range"), ",")
		if !ranged {
			continue
		}
		least, err1 := strconv.ParseFloat(low, 64)
		most, err2 := strconv.ParseFloat(high, 64)
		if err1 != nil || err2 != nil {
			panic(fmt.Sprintf("the range of %s is %q", field.Name, field.Tag.Get("range")))
		}
		x := 0.0
		if v.Field(i).CanInt() {
			x = float64(v.Field(i).Int())
		} else {
			x = v.Field(i).Float()
		}
		if !(x >= least && x <= most) {
			return fmt.Errorf("%s is %v, want %s to %s", field.Tag.Get("yaml"), v.Field(i), low, high)
		}
	}
	return nil
}

// InRange returns an error unless a setting is within bounds, which are allowed too.
func InRange(name string, x, low, high int) error {
	if x >= low && x <= high {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v to %v", name, x, low, high)
}
