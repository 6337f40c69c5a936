package config

import (
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/inference/physics"
)

const oneAircraft = `aircraft: [{system_id: 1, endpoint: "udp-listen:127.0.0.1:14540"}]` + "\n"

func readSurroundings(text string) (Config, error) {
	c := Defaults()
	err := configs.Decode([]byte(oneAircraft+text), &c)
	if err == nil {
		err = c.Check()
	}
	return c, err
}

func TestSurroundingsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           "",
		"surroundings: {contention: true}":           "",
		"surroundings: {gusts: true}":                "gusts",
		"surroundings: {slow_cpu: 0.96}":             "surroundings.slow_cpu is 0.96, want 0.05 to 0.95",
		"surroundings: {slow_cpu: .nan}":             "surroundings.slow_cpu is NaN",
		"surroundings: {radio: {urban: 27}}":         `surroundings.radio has "urban", want one of ["urban_a"`,
		"surroundings: {radio: {los_excess_db: -1}}": "surroundings.radio.los_excess_db is -1, want 0 to 100",
		"surroundings: {sounding: true, radio: {urban_a: 27.23}}": "",
	} {
		_, err := readSurroundings(text + "\n")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What is not configured is the checkpoint's; wind and payload alone leave its front in
// force.
func TestSurroundingsOverACheckpoint(t *testing.T) {
	trained := physics.DefaultConstants()
	for text, want := range map[string]bool{
		"": false, "surroundings: {wind: true, payload: true}": false, "surroundings: {radio: {urban_a: 9.61}}": false,
		"surroundings: {radio: {urban_a: 27.23}}": true, "surroundings: {contention: true}": true,
		"surroundings: {sounding: true}": true, "surroundings: {slow_cpu: 0.45}": true,
	} {
		c, err := readSurroundings(text + "\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Surroundings.OutOfDistribution(trained); got != want {
			t.Errorf("%s: out of distribution %v", text, got)
		}
	}
	c, err := readSurroundings("surroundings: {contention: true, radio: {nlos_excess_db: 34, los_shadow_db: 3}}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := trained
	want.Contention, want.Channel.NLoS.ExcessDB, want.Channel.LoS.ShadowDB = true, 34, 3
	if got := c.Surroundings.Physics(trained); got != want || trained != physics.DefaultConstants() {
		t.Errorf("%+v, want %+v", got, want)
	}
}
