package command

import (
	"errors"
	"testing"
)

// What people write as a total, and what is made of it.
func TestParseEnergy(t *testing.T) {
	for text, want := range map[string]float64{
		"42kJ": 42000, "42 kJ": 42000, " 42\u00a0kJ ": 42000, "11.7Wh": 42120, "0.0117 kWh": 42120, "42000": 42000, "42000 J": 42000,
		"42J": 42, "4.2e4": 42000, "0.042MJ": 42000, "1000": 1000, ".5kJ": 500,
	} {
		if got, err := ParseEnergy(text); err != nil || got != want {
			t.Errorf("%q: %v J, %v, want %v J", text, got, err, want)
		}
	}
	for text, unitMissing := range map[string]bool{
		"42": true, "999.9": true, "0.5": true, " 42 ": true,
		"": false, "kJ": false, "42 mJ": false, "42 KJ": false, "42k": false, "42 kJ/s": false, "42,000": false, "42 000": false,
		"4,2kJ": false, "-42kJ": false, "0": false,
		"0J": false, "0.0001J": false, "1e308kWh": false, "NaN": false, "NaN kJ": false, "Inf": false, "42 kJ kJ": false, "1e999": false,
		"0x10p4": false, "４２kJ": false, "\x1b[2J": false,
	} {
		if got, err := ParseEnergy(text); err == nil || got != 0 || errors.Is(err, ErrUnitMissing) != unitMissing {
			t.Errorf("%q: %v J, %v", text, got, err)
		}
	}
}
