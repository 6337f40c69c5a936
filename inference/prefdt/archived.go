package prefdt

import "prefdt/inference/dispatch"

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
	if err := a.UserPrior.Check(); err != nil {
		return err
	}
	return a.Statistics.check(&a.Form)
}
