package command

import (
	"math"
	"strings"
	"testing"
)

// FuzzParseEnergy reads any text as a total. What passes is a finite number of joules, as
// large as the text says, and an error is one line that can be printed.
func FuzzParseEnergy(f *testing.F) {
	for _, text := range []string{"42kJ", "11.7 Wh", "42", "42000", "1e3MJ", "", "-1J", "0x1p4", "1_000", "NaN", "\x1b[2J", "9e999kWh",
		"1e308kWh"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		energyJ, err := ParseEnergy(text)
		switch {
		case err != nil:
			if energyJ != 0 || strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Fatalf("%q: %v J, %q", text, energyJ, err)
			}
		case !(energyJ > 0) || math.IsInf(energyJ, 0):
			t.Fatalf("%q is %v J", text, energyJ)
		case energyJ < leastBareJ && !strings.HasSuffix(strings.TrimSpace(text), "J") && !strings.HasSuffix(strings.TrimSpace(text), "Wh"):
			t.Fatalf("%q without a unit is %v J", text, energyJ)
		}
	})
}
