package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Inline is exported, as go-yaml wants.
type Inline struct {
	Inner float64 `yaml:"inner"`
}

func TestLoad(t *testing.T) {
	type config struct {
		Slots int     `yaml:"slots"`
		Speed float64 `yaml:"speed"`
		Area  struct {
			WidthM, HeightM float64
		} `yaml:"area"`
		SlotMS float64        `yaml:"slot_ms"`
		Big    uint64         `yaml:"big"`
		List   []int          `yaml:"list"`
		Table  map[string]int `yaml:"table"`
		On     *bool          `yaml:"on"`
		Text   string         `yaml:"text"`
		Texts  []string       `yaml:"texts"`
		Inline `yaml:",inline"`
	}
	cases := []struct {
		name, yaml, wantErr string
	}{
		{"good", "slots: 5\nspeed: 10\n", ""},
		{"nested keeps defaults beside it", "area:\n  widthm: 3\n", ""},
		{"empty keeps defaults", "", ""},
		{"comment only keeps defaults", "# nothing\n", ""},
		{"quotes, signs, exponents and underscores", "slots: \"5\"\nspeed: 1e1\nbig: 18446744073709551615\nlist: [+1_000, 1e3]\n", ""},
		{"text of several lines", "text: |\n  a\n  b\n", ""},
		{"text like a number, in quotes", "text: \"007\"\n", ""},
		{"a byte order mark", "\ufeffslots: 5\n", ""},
		{"a byte order mark and a comment", "\ufeff# of Windows\nslots: 5\n", ""},
		{"a number for text", "text: 007\n", `[1:7] text is "007", want text: put it in quotes`},
		{"a plain number for text", "text: 5\n", `want text: put it in quotes`},
		{"yes or no for text", "text: true\n", `want text: put it in quotes`},
		{"a number for a key", "table: {010: 1}\n", `[1:9] table.key is "010", want text: put it in quotes`},
		{"an octal number", "slots: 0400\n", `[1:8] slots is "0400", want a number that does not begin with 0`},
		{"an octal number for a fraction", "speed: 010\n", `want a number that does not begin with 0`},
		{"an octal number in quotes", "slots: \"0400\"\n", `want a number that does not begin with 0`},
		{"a merge key", "table: &a {b: 1}\nslots: 5\n<<: *a\n", `[3:1] it has a merge key, <<, which is not read`},
		{"a merge key with an override", "area: &a {widthm: 1}\ntable: {<<: *a, widthm: 2}\n", `[2:9] table has a merge key, <<`},
		{"an alias of a number for text", "slots: &a 5\ntext: *a\n", `want text: put it in quotes`},
		{"an alias of a fraction for an integer", "speed: 10\ninner: &a 0.5\nlist: [*a]\n", `want an integer`},
		{"a tag on an octal number", "slots: !!int 0400\n", `want a number that does not begin with 0`},
		{"a tag on text", "text: !!str 007\n", `007`},
		{"a second document", "slots: 5\n---\nspeed: 20\n", `document`},
		{"a document after nothing", "# nothing\n---\nslots: 5\n---\n", ""},
		{"a date for text", "text: 2026-11-27\n", ""},
		{"text with a colon", "text: 12:30\n", ""},
		{"hexadecimal text", "text: 0x10\n", `want text: put it in quotes`},
		{"nothing in a list of text", "texts: [a, ~]\n", `[1:12] texts[1] is "~", want a value`},
		{"UTF-16", "\xff\xfes\x00l\x00o\x00t\x00s\x00:\x00 \x005\x00\n\x00", `UTF-8`},
		{"a whole number with a point", "slots: 5.0\n", ""},
		{"inline, anchor and alias", "inner: &a 7\nspeed: 10\nlist: [*a]\n", ""},
		{"null leaves a key", "slots:\nlist: null\n", ""},
		{"infinity is a number", "inner: .inf\n", ""},
		{"unknown key", "slots: 5\nspeeed: 10\n", `[2:1] unknown field "speeed"; did you mean "speed"?`},
		{"unknown key between two", "slotms: 5\n", `did you mean "slot_ms"?`},
		{"unknown key below", "area: {width: 3}\n", `[1:8] unknown field "area.width"; did you mean "widthm"?`},
		{"unknown key like none", "volume: 3\n", `[1:1] unknown field "volume"`},
		{"unknown key of an inline struct", "iner: 3\n", `unknown field "iner"; did you mean "inner"?`},
		{"key twice", "slots: 5\nslots: 6\n", "slots"},
		{"wrong type", "slots: many\n", `[1:8] slots is "many", want an integer`},
		{"a fraction for an integer", "slots: 100.5\n", `slots is "100.5", want an integer`},
		{"a fraction in an exponent", "slots: 15e-1\n", `slots is "15e-1", want an integer`},
		{"infinity for an integer", "slots: .inf\n", `slots is ".inf", want an integer`},
		{"no number for an integer", "slots: .nan\n", `slots is ".nan", want an integer`},
		{"a negative size", "big: -1\n", `big is "-1", want an integer, 0 or more`},
		{"a fraction in a list", "list:\n  - 3\n  - 0.5\n", `[3:5] list[1] is "0.5", want an integer`},
		{"a fraction in a mapping", "table: {a: 1, b: 0.5}\n", `table.b is "0.5", want an integer`},
		{"a value for keys", "area: 3\n", `area is "3", want keys below it`},
		{"a value for a list", "list: 3\n", `list is "3", want a list`},
		{"a list for a number", "speed: [1, 2]\n", `speed is "[1, 2]", want a number`},
		{"a number for yes or no", "on: 1\n", `on is "1", want true or false`},
		{"a mapping for text", "text: {a: 1}\n", `want text`},
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
	for text, want := range map[string]string{
		"a: 0400\n": `[1:4] a is "0400"`, "a: {b: [1, 010]}\n": `[1:12] a.b[1] is "010"`, "a: {7: x}\n": "want text", "\ufeffa: 1\n": "",
		"a: &b {c: 1}\nd: {<<: *b}\n": "merge key", "a: \"010\"\nb: 0.5\nc: 0\n": "",
	} {
		values := map[string]any{}
		if err := Decode([]byte(text), &values); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q for another program: %v, want %q", text, err, want)
		}
		if _, ok := values["a"]; want == "" && !ok {
			t.Errorf("%q: %v", text, values)
		}
	}
	if err := Load(filepath.Join(t.TempDir(), "none.yaml"), &config{}); err == nil {
		t.Fatal("a missing file was accepted")
	}
}
