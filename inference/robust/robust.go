// Package robust has the rule by which a reading of power counts that contradicts what is
// believed: never alone, but once the next one agrees with it. The filters of the wind and
// the propulsion multiplier keep it alike, since the same batteries feed both.
package robust

// Outlier is a reading that contradicts what is believed: the logarithm of the reading over
// what was expected. Zero: there is none.
type Outlier float64

// Agrees reports whether the next reading, in the same measure, is off in the same
// direction and about as far.
func (o Outlier) Agrees(off float64) bool {
	ratio := off / float64(o)
	return ratio > 1.0/3 && ratio < 3
}
