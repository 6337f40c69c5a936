package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	type config struct {
		Slots int     `yaml:"slots"`
		Speed float64 `yaml:"speed"`
		Area  struct {
			WidthM, HeightM float64
		} `yaml:"area"`
	}
	cases := []struct {
		name, yaml, wantErr string
	}{
		{"good", "slots: 5\nspeed: 10\n", ""},
		{"nested keeps defaults beside it", "area:\n  widthm: 3\n", ""},
		{"empty keeps defaults", "", ""},
		{"comment only keeps defaults", "# nothing\n", ""},
		{"unknown key", "slots: 5\nspeeed: 10\n", `unknown field "speeed"`},
		{"key twice", "slots: 5\nslots: 6\n", "slots"},
		{"wrong type", "slots: many\n", "cannot unmarshal"},
		{"not YAML", "slots: [1\n", "["},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(c.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := config{Slots: 5, Speed: 10}
			cfg.Area.HeightM = 7
			err := Load(path, &cfg)
			if c.wantErr == "" {
				if err != nil || cfg.Slots != 5 || cfg.Speed != 10 || cfg.Area.HeightM != 7 {
					t.Fatalf("got %+v, %v", cfg, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.wantErr) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %q, want one line with %q", err, c.wantErr)
			}
		})
	}
	if err := Load(filepath.Join(t.TempDir(), "none.yaml"), &config{}); err == nil {
		t.Fatal("a missing file was accepted")
	}
}
