package train

import (
	"encoding/json"
	"strings"
	"testing"

	"prefdt/configs"
)

// FuzzConfig reads any text as a training run. A mistake is one line; what
// passes can be written into the run's state.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{"", "arch: {width: 128, pair_width: 64, layers: 3, heads: 4, context: 20}\nbatch: 16\nworkers: " +
		"2\nseed: 1\nschedule: {steps: 3000}\n",
		"arch: {width: 1e9}\n", "arch: {heads: 0}\n", "workers: 17\n", "schedule: {steps: 0}\n", "weights: {price: .nan}\n",
		"schedule: {rate: .inf}\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := Default()
		err := configs.Decode(raw, &c)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is more than a line", err)
			}
			return
		}
		if _, err := json.Marshal(c); err != nil {
			t.Fatal(err)
		}
	})
}
