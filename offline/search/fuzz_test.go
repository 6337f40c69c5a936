package search

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/offline/command"
	"prefdt/offline/seeds"
)

// FuzzConfig reads any text as a search. A mistake is one line; what passes has
// a name, its hash, and seeds to fly.
func FuzzConfig(f *testing.F) {
	whole, err := os.ReadFile("../../configs/search.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(regexp.MustCompile(`(?m)^ *#.*\n| +# .*`).ReplaceAll(whole, nil))
	for _, text := range []string{"", "population: 1\n", "seeds: '1000000:1000002'\n", "seeds: '-1'\n"} {
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
		if list, err := command.ParseSeeds(c.Seeds, seeds.CheckTraining); err != nil || len(c.Hash()) != 64 {
			t.Fatalf("%v of %q, %v", list, c.Seeds, err)
		}
	})
}
