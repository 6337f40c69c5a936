package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// writeKey writes a key file as ground keygen does.
func writeKey(t *testing.T, folder, name string, private ed25519.PrivateKey) (path string) {
	t.Helper()
	path = filepath.Join(folder, name+".key")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(private.Seed())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every mistake that a command can be made with, at a real leader that wants signatures:
// what the crew is told, and that nothing was applied.
func TestMistakenCommands(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100)
		site := &testSite{Network: r.Network, url: r.Config.Broker.URL}
		mine := writeKey(t, t.TempDir(), "crew-1", r.UseKey("crew-1"))
		_, unknown, _ := ed25519.GenerateKey(nil)
		sameName, otherName := writeKey(t, t.TempDir(), "crew-1", unknown), writeKey(t, t.TempDir(), "crew-2", unknown)
		r.StartLeader()
		r.Await("the leader", func(s telemetry.Status) bool { return s.FloorJ > 20e3 && s.FloorJ < 36e3 })
		used := r.Config.Mission
		for _, c := range []struct {
			name  string
			words string
			key   string
			code  int
			want  string // on standard output if it is accepted, on standard error otherwise
		}{
			{"per cent meant", "budget -reserve 20 -landed -land", mine, 2, "-reserve 20 has no unit; write 20%, 20J, 20kJ or 20Wh"},
			{"joules of a reserve", "budget -reserve 200 -landed -land", mine, 2,
				"-reserve 200 is too few joules to be meant as such; write 200J"},
			{"all lands at once", "budget -reserve 95% -landed -land", mine, 2,
				"the reserve leaves aircraft 1 and 2 nothing to fly with: they come home at once; ask for less, or confirm that with " +
					"-below-floor; nothing was sent"},
			{"kilojoules meant", "budget -energy 42", mine, 2, "42 is too few joules to be meant as such; write 42J, 42kJ or 42Wh"},
			{"watt-hours meant", "budget -energy 11.7", mine, 2, "write 11.7J, 11.7kJ or 11.7Wh"},
			{"to replace kilojoules", "budget -energy 42kJ -replaces 45", mine, 2, "-replaces 45 is too few joules"},
			{"a unit of something else", "budget -energy 42kW", mine, 2, "has no unit of energy; want J, kJ, MJ, Wh or kWh"},
			{"millijoules", "budget -energy 42000mJ", mine, 2, "has no unit of energy"},
			{"a comma", "budget -energy 42,5kJ", mine, 2, `"42,5kJ" is no energy`},
			{"kilojoules", "budget -energy 42kJ -id b1", mine, 0, "budget of 42 kJ (target) accepted from slot 0; the floor is"},
			{"its id again, the same", "budget -energy 42000J -id b1", mine, 0, "(id b1, key crew-1)"},
			{"its id again, another total", "budget -energy 43kJ -id b1", mine, 3,
				"id b1 belongs to another command; send this one with a new id"},
			{"its id again, another mode", "budget -energy 42kJ -mode ceiling -id b1", mine, 3, "id b1 belongs to another command"},
			{"a total that is not in force", "budget -energy 40kJ -replaces 45kJ", mine, 3,
				"the budget in force is of 42 kJ, not of 45 kJ; replace that one"},
			{"unsigned", "budget -energy 40kJ", "", 3,
				"no signature; this leader accepts signed commands only: sign with a key whose line " +
					"is in its commands.keys (id "},
			{"watt-hours, two words", "budget -mode ceiling -replaces 42kJ -energy 11.7 Wh", mine, 0,
				"budget of 42.12 kJ (ceiling) accepted from slot 0"},
			{"below the floor", "budget -energy 9kJ", mine, 2, "9 kJ (9000 J, 2.5 Wh) is below the floor of"},
			{"joules, by their unit", "budget -energy 42J", mine, 2, "is below the floor of"},
			{"below the floor, and meant so", "budget -energy 9000 -below-floor", mine, 0,
				"budget of 9 kJ (target) accepted from slot 0, SATURATED: below what flying needs"},
			{"an unknown key", "budget -energy 40kJ", otherName, 3,
				`key "crew-2" is not known; put the line of its .pub file into the leader's commands.keys`},
			{"more than the batteries", "budget -energy 42MJ", mine, 3, "want above 0 and at most 300000, the fleet's capacity"},
			{"a setting in per cent", "preference -setting 35", mine, 2, "35 is outside [0, 1]"},
			{"a preference", "preference -setting 0.35", mine, 0, "preference 0.35 accepted from slot 0"},
			{"a budget to replace, of none", "budget -energy 40kJ -replaces 9kJ", mine, 3,
				"no budget is in force that this could replace, of 9 kJ or any other"},
			{"an action of another state", "mission hold", mine, 3, "the mission is idle, which accepts start, clear, new"},
			{"an aircraft that there is not", "mission launch -aircraft 3", mine, 3, "this fleet has 2"},
			{"an action that there is not", "mission land", mine, 2, "want one of start, hold"},
			{"a key of the same name", "mission new -mission m-9", sameName, 3, "another key has this name in the leader's commands.keys"},
			{"a mission's id again", "mission new -mission " + used, mine, 3, "was used before; choose another"},
		} {
			before := r.LastStatus().LastCommand
			args := append(strings.Fields(c.words), "-fleet", r.Config.Fleet, "-broker", site.url, "-timeout", "30s", "-v")
			if c.key != "" {
				args = append(args, "-key", c.key)
			}
			code, stdout, stderr := site.run(t, args...)
			out, other := stdout, stderr
			if c.code != 0 {
				out, other = stderr, stdout
			}
			if code != c.code || !strings.Contains(out, c.want) || other != "" || strings.Count(out, "\n") != 1 {
				t.Errorf("%s: %d %q %q, want %d %q", c.name, code, stdout, stderr, c.code, c.want)
			}
			if code == 0 && !strings.Contains(out, ", key crew-1)") {
				t.Errorf("%s: the signer is not named: %s", c.name, out)
			}
			if code == 0 { // the status may come after the answer
				_, id, _ := strings.Cut(out, "(id ")
				id, _, _ = strings.Cut(id, ",")
				r.Await("the command", func(s telemetry.Status) bool { return s.LastCommand != nil && s.LastCommand.ID == id })
			}
			last := r.LastStatus()
			now := r.Await("the next status", rig.StatusesAfter(last, 2)).LastCommand
			if c.code != 0 && (before == nil != (now == nil) || before != nil && *before != *now) {
				t.Errorf("%s was applied: %+v", c.name, now)
			}
		}
	})
}

// A number without a unit asks for it, where there is somebody to answer.
func TestMissingUnitAsks(t *testing.T) {
	for name, c := range map[string]struct {
		text, answer string
		asked        bool
		want         float64 // 0: refused
	}{
		"kilojoules":          {"42", "kJ\n", true, 42000},
		"joules, truly":       {"42", " J \n", true, 42},
		"a decimal":           {"11.7", "Wh", true, 42120},
		"a total":             {"42", "42kJ\n", true, 42000},
		"another total":       {"1", "50 kJ\n", true, 50000},
		"a number again":      {"42", "42\n", true, 0},
		"no answer":           {"42", "\n", true, 0},
		"no":                  {"500", "n\n", true, 0},
		"yes is no unit":      {"42", "y\n", true, 0},
		"nothing to ask":      {"42kJ", "Wh", false, 42000},
		"large enough":        {"42000", "kJ", false, 42000},
		"nothing to be asked": {"lots", "kJ", false, 0},
	} {
		asked := false
		got, err := parseEnergy(c.text, func(question string) string {
			asked = true
			return c.answer
		})
		if got != c.want || (err == nil) != (c.want > 0) || asked != c.asked {
			t.Errorf("%s: %v, %v, asked %v", name, got, err, asked)
		}
	}
	if _, err := parseEnergy("42", nil); err == nil {
		t.Error("nobody to ask, and accepted")
	}
}

// A stop leaves the aircraft in the air, which is said and shown; return brings them
// down, and new begins the next mission in the same leader, which starts.
func TestStopReturnNew(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		site := &testSite{Network: r.Network, url: r.Config.Broker.URL}
		mine := writeKey(t, t.TempDir(), "crew-1", r.UseKey("crew-1"))
		f := r.StartLeader()
		r.TakeOff()
		r.Await("flying", rig.Flying)
		send := func(words string, code int, want string) {
			t.Helper()
			args := append(strings.Fields(words), "-fleet", r.Config.Fleet, "-broker", site.url, "-timeout", "30s", "-key", mine)
			got, stdout, stderr := site.run(t, args...)
			if got != code || !strings.Contains(stdout+stderr, want) {
				t.Fatalf("%s: %d %q %q, want %d %q", words, got, stdout, stderr, code, want)
			}
		}
		send("mission stop", 0, "\nAircraft 1 and 2 stay in the air where they are, in their autopilots' Hold, until `return` or a pilot.")
		r.Await("both left in the air", func(s telemetry.Status) bool {
			return len(s.Dangers) > 1 &&
				command.DangerText(&s.Dangers[0]) == "aircraft 1: is LEFT IN THE AIR, in its autopilot's AUTO.LOITER: return"
		})
		send("mission new", 3, "is in the air; `return` or its pilot brings it down")
		// They may not have reported Hold yet.
		send("mission return", 0, "\nAircraft 1 and 2 fly to where they took off and land there. The mission is over.")
		r.Await("landed", func(s telemetry.Status) bool {
			return rig.Done(s) && *s.Aircraft[0].Landed && *s.Aircraft[1].Landed
		})
		send("mission start", 3, "the mission is done, which accepts hold, resume, return, stop, clear, new")
		send("budget -energy 1kJ", 3, "begin the next one with `new`, then send the request")
		send("mission new", 0, "\nMission m-2")
		if s := r.Await("idle", rig.InState(telemetry.StateIdle)); s.Slot != -1 || s.SpentJ != 0 {
			t.Errorf("the next mission begins with %+v", s)
		}
		if id := f.Report().Mission; !strings.HasPrefix(id, "m-2") || id == r.Config.Mission {
			t.Errorf("the next mission is %s", id)
		}
		r.TakeOff()
		r.Await("the next mission flies", rig.Flying)
	})
}
