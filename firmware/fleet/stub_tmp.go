package fleet

import "errors"

func (p *Parameters) DescentS(heightM float64) float64 { return 74 * heightM / 100 }
func (f *Fleet) Launch(number int)                     { f.Resume(number, OrderFly) }
func (f *Fleet) Rejoin(number int, o Order)            { f.Resume(number, o) }
func (f *Fleet) Clear(number int) error                { return errors.New("stub") }
func (v *View) Ready() error                           { return nil }
func (v *View) Pilot() bool                            { return v.Phase == PhaseTaken }
func (f *Fleet) State() []Saved                        { return nil }
func (f *Fleet) Restore(s []Saved)                     {}
