package function

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/share"
)

func TestCheck(t *testing.T) {
	good := Config{ID: "f", Command: []string{"cat"}, UnitBytes: 1, OutputBytes: 1}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(c *Config){
		"id":           func(c *Config) { c.ID = "a b" },
		"one of":       func(c *Config) { c.WASM = "f.wasm" },
		"one of c":     func(c *Config) { c.Command = nil },
		"unit_bytes":   func(c *Config) { c.UnitBytes = 0 },
		"output_bytes": func(c *Config) { c.OutputBytes = 1 << 30 },
		"index":        func(c *Config) { c.Index = -1 },
		"http wants":   func(c *Config) { c.Command, c.HTTP = nil, "http://localhost:1/" },
		"http://host": func(c *Config) {
			c.Command, c.HTTP, c.CPUHz, c.Concurrency = nil, "localhost", 1e9, 1
		},
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// A service computes as a process does; what it does wrong ends one task.
func TestService(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/upper":
			w.Write(bytes.ToUpper(body))
		case "/long":
			w.Write(make([]byte, 1<<20))
		default:
			http.Error(w, "no", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		path, want string
		err        error
	}{{"/upper", "UNITS", nil}, {"/long", "", executor.ErrOutput}, {"/none", "", executor.ErrFailed}} {
		config := Config{ID: "f", HTTP: server.URL + c.path, UnitBytes: 1, OutputBytes: 1, CPUHz: 1e9, Concurrency: 2}
		if err := config.Check(); err != nil {
			t.Fatal(err)
		}
		f, err := config.New("", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &share.Scheduler{Cores: config.Concurrency, MaxTasks: 8}
		s.Start()
		got, err := s.Run(context.Background(), f, 1, []byte("units"))
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.path, got, err)
		}
		s.Close()
	}
	gone := Config{ID: "f", HTTP: "http://127.0.0.1:1/", UnitBytes: 1, OutputBytes: 1}
	f, _ := gone.New("", "", nil)
	x, _ := f.Start()
	if _, _, err := x.Run(0, nil, 1); !errors.Is(err, executor.ErrAway) ||
		!strings.HasPrefix(err.Error(), "the service at http://127.0.0.1:1/ cannot be reached: ") {
		t.Errorf("no service: %v", err)
	}
	x.Kill()
	if _, _, err := x.Run(0, nil, 1); err != executor.ErrKilled {
		t.Errorf("killed: %v", err)
	}
}

// Another program, another function of it, and other arguments have another digest; so has another
// content of a file that is an argument, such as an interpreter's script.
func TestDigest(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []Config{{Command: []string{"cat"}}, {Command: []string{"cat"}, Index: 1}, {Command: []string{"ls"}},
		{HTTP: "http://a/"}, {HTTP: "http://b/"}} {
		d, err := c.Digest()
		if err != nil || len(d) != 64 || seen[d] {
			t.Errorf("%+v: %s, %v", c, d, err)
		}
		seen[d] = true
	}
	script := filepath.Join(t.TempDir(), "f.py")
	for _, text := range []string{"print(1)", "print(2)"} {
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{{"cat", script}, {"cat", "-u", script}, {"cat", "-u", "-n", script}} {
			d, err := (&Config{Command: command}).Digest()
			if err != nil || seen[d] {
				t.Errorf("%q of %q has the digest of another function: %s, %v", command, text, d, err)
			}
			seen[d] = true
		}
	}
	c := Config{ID: "f", WASM: "none.wasm"}
	if _, err := c.Digest(); err == nil {
		t.Error("a module that is not there has a digest")
	}
}
