package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/simbridge/fly"
)

func TestShippedConfiguration(t *testing.T) {
	c := fly.Default()
	if err := configs.Load("../configs/fly.yaml", &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if c.World.Shock.FromSlot != 50 || c.World.Shock.Factor != 1.5 || c.World.Aircraft != 2 || c.Users.Loss != 0.1 || len(c.Commands) != 3 {
		t.Errorf("%+v", c)
	}
}

func TestShippedFlights(t *testing.T) {
	for _, command := range []string{"px4", "hil"} {
		c := fly.Default()
		if err := configs.Load("../configs/"+command+".yaml", &c); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		if err := suits(command, &c); err != nil || c.Speed != 1 || len(c.Leader.Run) != 0 {
			t.Errorf("%s: %v, %+v", command, err, c)
		}
	}
}

// A mistake is one line that says what is wrong, and exit status 2.
func TestBadInput(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	craft := "broker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, listen: \"127.0.0.1:0\"}]\n"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such command": {[]string{"flap"}, `no command "flap"`},
		"no such flag":    {[]string{"fly", "-x"}, "-x"},
		"no such file":    {[]string{"fly", "-config", filepath.Join(folder, "none.yaml")}, "none.yaml"},
		"stray word":      {[]string{"fly", "now"}, `unexpected "now"`},
		"unknown key":     {[]string{"fly", "-config", file("a.yaml", craft+"speeed: 10\n")}, "speeed"},
		"wrong type":      {[]string{"fly", "-config", file("b.yaml", craft+"speed: fast\n")}, "b.yaml"},
		"out of range":    {[]string{"fly", "-config", file("c.yaml", craft+"speed: -1\n")}, "speed is -1, want 0.01 to 1000"},
		"bad world":       {[]string{"fly", "-config", file("d.yaml", craft+"world: {task_probability: 2}\n")}, "task_probability is 2, want 0 to 1"},
		"bad broker":      {[]string{"fly", "-config", file("e.yaml", craft), "-broker", "http://x"}, "want tcp://host:port"},
		"bad fleet":       {[]string{"fly", "-config", file("f.yaml", craft+"fleet: a/b\n")}, "fleet"},
		"two ways":        {[]string{"fly", "-config", file("h.yaml", "broker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, listen: x, serial: \"/dev/x:57600\"}]\n")}, "2 of listen, serial and attach"},
		"bad serial":      {[]string{"hil", "-config", file("i.yaml", "broker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, serial: /dev/x}]\n")}, "want device:baud"},
		"px4 without":     {[]string{"px4", "-config", file("j.yaml", craft)}, "has no attach"},
		"px4 hurried":     {[]string{"px4", "-config", file("k.yaml", "speed: 10\nbroker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, attach: \"127.0.0.1:1\"}]\n")}, "speed is 10, want 1"},
		"no leader":       {[]string{"chaos", "-leader", filepath.Join(folder, "none")}, "the leader: "},
		"no missions":     {[]string{"chaos", "-missions", "0"}, "-missions is 0, want 1 to"},
		"twice the id":    {[]string{"fly", "-config", file("g.yaml", "broker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, listen: x}, {system_id: 1, listen: y}]\n")}, "aircraft 2: system_id is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(context.Background(), c.args, &out, &errs)
			if text := errs.String(); code != 2 || !strings.Contains(text, c.want) || strings.Count(text, "\n") != 1 {
				t.Errorf("exit %d, %q, want 2 and one line with %q", code, text, c.want)
			}
		})
	}
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"fly", "-h"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "-config") {
		t.Errorf("-h: exit %d, %q", code, out.String())
	}
}
