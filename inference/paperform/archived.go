package paperform

import (
	"fmt"

	"prefdt/inference/dispatch"
)

// Archived is what a checkpoint's manifest holds of the published form beside the weights.
type Archived struct {
	Form       Form               `json:"form"`
	Statistics Statistics         `json:"standard"`
	UserPrior  dispatch.UserPrior `json:"user_prior"` // of the corpus
	// AsPublished flies by the letter of the paper's Algorithm 1: a budget overwrites the energy
	// entry alone, the aircraft tokens have the real batteries, the context is always whole, and a
	// move turns by any angle. See Policy for what is done otherwise.
	AsPublished bool `json:"as_published,omitempty"`
}

// Check returns an error that names the first invalid entry.
func (a *Archived) Check() error {
	if err := a.Form.Check(); err != nil {
		return err
	}
	p := &a.UserPrior
	for _, x := range []float64{p.TaskMean.Bits, p.TaskMean.CyclesPerBit, p.TaskMean.DeadlineS, p.CPUHz, p.ActiveUsers} {
		if !(x > 0 && x < 1e15) {
			return fmt.Errorf("prior over users is %+v, want positive means", *p)
		}
	}
	for _, x := range []float64{p.TaskStdDev.Bits, p.TaskStdDev.CyclesPerBit, p.TaskStdDev.DeadlineS} {
		if !(x >= 0 && x < 1e15) { // nor NaN
			return fmt.Errorf("prior over users is %+v, want no negative deviation", *p)
		}
	}
	return a.Statistics.check(&a.Form)
}
