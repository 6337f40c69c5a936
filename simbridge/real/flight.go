package real

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"prefdt/configs"
	"prefdt/simbridge/fly"
)

// Rates of climb and descent at which a flight is short, m/s, by both names of ArduCopter's parameters.
const (
	fastPX4 = "MPC_Z_V_AUTO_UP 5\nMPC_Z_VEL_MAX_UP 5\nMPC_TKO_SPEED 3\nMPC_Z_V_AUTO_DN 3\nMPC_Z_VEL_MAX_DN 3\nMPC_LAND_SPEED 1.5\n" +
		"MPC_LAND_ALT1 10\n"
	fastArduPilot = "WPNAV_SPEED_UP 500\nWP_SPD_UP 5\nWPNAV_SPEED_DN 300\nWP_SPD_DN 3\nLAND_SPEED 100\nLAND_SPD_MS 1\n"
)

// relayed is by how much the ports of a leader's links are above those to which the instances send, where a relay is between.
const relayed = 10_000

// configure changes the copies of a flight's configurations in a folder.
func (f *Flight) configure(folder string) error {
	pair := f.Pair
	if pair == mixed {
		pair = "ardupilot" // its file is for both
	}
	if f.Fast {
		px4 := "param set " + strings.ReplaceAll(strings.TrimSpace(fastPX4), "\n", "\nparam set ") + "\n"
		for path, text := range map[string]string{"px4/px4-rc.params": px4, "ardupilot/sitl.parm": fastArduPilot} {
			if err := extend(folder, path, text); err != nil {
				return err
			}
		}
	}
	if f.Recipe {
		return nil
	}
	return change(filepath.Join(folder, pair+".yaml"), func(flight map[string]any) error {
		aircraft, _ := flight["aircraft"].([]any)
		for i := range aircraft {
			a, _ := aircraft[i].(map[string]any)
			if i < len(f.Packs) {
				a["pack_j"] = f.Packs[i]
			}
			if f.Relay {
				a["relay"] = []string{at(14540 + i), at(14540 + i + relayed)}
			}
			if f.Radio {
				a["radio"] = at(5501 + 10*i)
			}
		}
		commands := []fly.Command{{Slot: -1, Args: append([]string{"budget"}, f.Budget...)}, {Slot: -1, Args: []string{"mission", "start"}}}
		flight["commands"], flight["start_s"] = append(commands, f.Commands...), startS
		if f.Signed {
			flight["mavlink_key"] = keyFile
			if err := os.WriteFile(filepath.Join(folder, "..", keyFile), []byte(strings.Repeat("5e", 32)+"\n"), 0o600); err != nil {
				return err
			}
		}
		return change(filepath.Join(folder, "leader-"+pair+".yaml"), func(leader map[string]any) error {
			if f.Slots > 0 {
				leader["slots"] = f.Slots
			}
			mavlink, _ := leader["mavlink"].(map[string]any)
			if f.Signed {
				mavlink["key_file"] = keyFile
			}
			aircraft, _ := leader["aircraft"].([]any)
			for i := range aircraft {
				a, _ := aircraft[i].(map[string]any)
				if f.Relay {
					a["endpoint"] = "udp-listen:" + at(14540+i+relayed)
				}
				if i < len(f.Packs) {
					a["pack_j"] = f.Packs[i]
				}
			}
			return nil
		})
	})
}

const (
	keyFile = "mavlink.key"
	startS  = 300 // a busy machine boots slowly
)

func at(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// extend puts a folder's copy, with text after it, in the place of a file in a linked folder.
func extend(folder, path, text string) error {
	raw, err := os.ReadFile(filepath.Join(folder, path))
	if err != nil {
		return err
	}
	linked := filepath.Join(folder, filepath.Dir(path))
	if target, err := os.Readlink(linked); err == nil {
		if err := os.Remove(linked); err != nil {
			return err
		}
		if err := os.CopyFS(linked, os.DirFS(target)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, path), append(raw, text...), 0o755)
}

// change puts a changed copy in the place of a link to a YAML file.
func change(path string, edit func(map[string]any) error) error {
	values := map[string]any{}
	if err := configs.Load(path, &values); err != nil {
		return err
	}
	if err := edit(values); err != nil {
		return err
	}
	raw, err := yaml.Marshal(values)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}

// readResults are the results of earlier runs.
func readResults(path string) (all []Result) {
	raw, _ := os.ReadFile(path)
	for line := range strings.Lines(string(raw)) {
		var r Result
		if json.Unmarshal([]byte(line), &r) == nil {
			all = append(all, r)
		}
	}
	return all
}
