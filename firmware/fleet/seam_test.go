package fleet

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What is known of one kind of autopilot is in its own file. Nothing else of the leader's code
// names it, compares a number of its modes, or knows a parameter.
func TestAutopilotsAreKnownInTheirFilesAlone(t *testing.T) {
	words := []string{`PX4`, `ArduPilot`, `ArduCopter`, `OFFBOARD`, `GUIDED`, `AUTO\.[A-Z]+`, `px4\{`, `ardupilot\{`,
		`Mode(Position|Takeoff|Hold|Return|Land|Offboard)`, `copter[A-Z]\w+`, `lossAction\w+`}
	for _, kind := range []autopilot{px4{}, ardupilot{}} {
		for _, p := range kind.traits().parameters {
			words = append(words, p.name)
			if p.renamed != "" {
				words = append(words, p.renamed)
			}
		}
	}
	known := regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)`)
	files := 0
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"):
			return nil
		case path == "../fleet/px4.go", path == "../fleet/ardupilot.go", path == "../fleet/dialect.go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for i, line := range strings.Split(string(text), "\n") {
			if word := known.FindString(line); word != "" {
				t.Errorf("%s:%d names %s: %s", path, i+1, word, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || files < 50 {
		t.Fatalf("%d files read: %v", files, err)
	}
}
