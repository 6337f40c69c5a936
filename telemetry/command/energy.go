package command

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// energyUnits are the units that a total may be written in. Case counts: mJ is not MJ.
var energyUnits = map[string]float64{"J": 1, "kJ": 1e3, "MJ": 1e6, "Wh": 3600, "kWh": 3.6e6}

// leastBareJ is the least number of joules that is accepted without a unit. A total is
// some tens of thousands; a smaller number was meant as kilojoules or watt-hours.
const leastBareJ = 1000

// ErrUnitMissing is a number under 1,000 without a unit. Ask for the unit, and parse
// the number again with it.
var ErrUnitMissing = errors.New("too few joules to be meant as such")

// ParseEnergy reads a total as people write it: "42kJ", "42 kJ", "11.7Wh", "42000",
// and returns joules. An error is one line that says what to write.
func ParseEnergy(text string) (energyJ float64, err error) {
	text = strings.TrimSpace(text)
	digits := strings.TrimRightFunc(text, unicode.IsLetter)
	unit := text[len(digits):]
	digits = strings.TrimSpace(digits)
	x, err := strconv.ParseFloat(digits, 64)
	factor, known := energyUnits[unit]
	switch {
	case err != nil || strings.ContainsAny(digits, "xX"):
		return 0, fmt.Errorf("%.40q is no energy; write a number and a unit, as in 42kJ, 11.7Wh or 42000J", text)
	case !(x > 0):
		return 0, fmt.Errorf("%.40q is not above 0", text)
	case unit == "" && x < leastBareJ:
		return 0, fmt.Errorf("%s is %w; write %[1]sJ, %[1]skJ or %[1]sWh", digits, ErrUnitMissing)
	case unit == "":
		factor = 1
	case !known:
		return 0, fmt.Errorf("%.40q has no unit of energy; want J, kJ, MJ, Wh or kWh", text)
	}
	energyJ = math.Round(x*factor*1000) / 1000 // 11.7 * 3600 is not 42120 in binary
	if !(energyJ > 0 && energyJ <= math.MaxFloat64) {
		return 0, fmt.Errorf("%.40q is no energy that a battery has", text)
	}
	return energyJ, nil
}

// Kilojoules is an energy as sentences have it: in kJ to 10 J, without zeros at its end.
func Kilojoules(energyJ float64) string {
	return strconv.FormatFloat(math.Round(energyJ/10)/100+0, 'f', -1, 64) + " kJ" // +0: no "-0"
}

// inEveryUnit is an energy in every unit that it may have been meant in.
func inEveryUnit(energyJ float64) string {
	return fmt.Sprintf("%.6g kJ (%.0f J, %.4g Wh)", energyJ/1e3, energyJ, energyJ/3600)
}
