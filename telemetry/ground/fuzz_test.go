package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/telemetry"
)

// FuzzConfig reads any text as the tool's settings. A mistake is one line and
// exit status 2; what passes can be used.
func FuzzConfig(f *testing.F) {
	whole, err := os.ReadFile("../../configs/ground.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(regexp.MustCompile(`(?m)^ *#.*\n`).ReplaceAll(whole, nil))
	for _, text := range []string{"", "timeout_s: .inf\n", "fleet: a b\n", "broker: {url: 'tls://h', cert: x}\n", "fleet: &a [*a]\n",
		"broker: null\n", "stale_s: -1\n"} {
		f.Add([]byte(text))
	}
	path := filepath.Join(f.TempDir(), "ground.yaml")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		tool := host{}.newTool(t.Context(), cli.NewCall("ground watch", []string{"-config", path}, io.Discard, io.Discard))
		if _, err := tool.parse(0); err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || tool.Exit(err) != cli.ExitUsage {
				t.Fatalf("%q", err)
			}
			return
		}
		if c := tool.config; !(c.TimeoutS > 0) || !(c.StaleS > 0) || !telemetry.ValidID(c.Fleet) || c.Broker.URL == "" {
			t.Fatalf("accepted %+v", c)
		}
	})
}
