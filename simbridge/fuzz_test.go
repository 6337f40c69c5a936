package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/simbridge/fly"
)

// FuzzConfig reads any text as a flight of each command. A mistake is one line;
// what passes has aircraft and users to begin with.
func FuzzConfig(f *testing.F) {
	for _, name := range []string{"fly", "px4", "ardupilot", "hil"} {
		whole, err := os.ReadFile("../configs/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(regexp.MustCompile(`(?m)^ *#.*\n| +# .*`).ReplaceAll(whole, nil))
	}
	for _, text := range []string{
		"aircraft:\n- {system_id: 1, listen: '127.0.0.1:0', partner: '127.0.0.1:14540'}\n",
		"aircraft: [{system_id: 1, serial: '/dev/x:57600', listen: y}]\n",
		"world: {users: 1e9}\n", "world: {physics: {propulsion: {tip_mps: 0}}}\n", "speed: .nan\n", "commands: [{slot: 3, run: []}]\n",
		"parameters: {A: .inf}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, command := range []string{"fly", "sitl", "hil"} {
			c := fly.Default()
			err := configs.Decode(raw, &c)
			if err == nil {
				err = c.Check()
			}
			if err == nil {
				err = checkCommand(command, &c)
			}
			switch {
			case err != nil && strings.ContainsAny(err.Error(), "\n\r"):
				t.Fatalf("%s: %q is more than a line", command, err)
			case err == nil && (len(c.Aircraft) < 1 || c.World.Aircraft != len(c.Aircraft) || !(c.Speed > 0)):
				t.Fatalf("%s: accepted %+v", command, c)
			}
		}
	})
}
