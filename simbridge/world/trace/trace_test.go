package trace

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/inference/physics"
)

const header = "time_s,user,east_m,north_m,bits,cycles_per_bit,deadline_s\n"

// Two users, one of whom moves; in slot 2 both report, one without a task.
const small = header +
	"0,ana,10,20,1e6,1000,1\n" +
	"2.25,Zoë / roof,500,600,0,0,0\n" +
	"2.75,ana,30,40,2e6,500,0.5\n"

func TestParse(t *testing.T) {
	tr, err := Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Users) != 2 || tr.Users[0] != "ana" || tr.Users[1] != "Zoë / roof" || tr.Slots() != 3 {
		t.Fatalf("users %q, %d slots", tr.Users, tr.Slots())
	}
	if n := len(tr.Rows(1)); n != 0 {
		t.Errorf("slot 1 has %d rows, want none", n)
	}
	rows := tr.Rows(2)
	if len(rows) != 2 || rows[0].User != 0 || rows[0].Task != (physics.Task{Bits: 2e6, CyclesPerBit: 500, DeadlineS: 0.5}) ||
		rows[1].User != 1 || rows[1].Task.Bits > 0 {
		t.Errorf("slot 2 is %+v", rows)
	}
	for _, c := range []struct {
		user, slot  int
		east, north float64
	}{{0, 0, 10, 20}, {0, 1, 10, 20}, {0, 2, 30, 40}, {0, 99, 30, 40}, {1, 0, 500, 600}, {1, 2, 500, 600}} {
		if p := tr.Position(c.user, c.slot); p != (physics.Position{EastM: c.east, NorthM: c.north}) {
			t.Errorf("user %d is at %v in slot %d, want (%v, %v)", c.user, p, c.slot, c.east, c.north)
		}
	}
}

func TestCheck(t *testing.T) {
	tr, err := Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Check(1000, 1e9); err != nil {
		t.Error(err)
	}
	if err := tr.Check(550, 1e9); err == nil || !strings.Contains(err.Error(),
		`line 3, column 4, north_m: 600, want 0 to 550, the side of the area; user "Zoë / roof"`) {
		t.Errorf("outside the area: %v", err)
	}
	if err := tr.Check(1000, 1); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a task of years: %v", err)
	}
}

// A mistake is one line that names where it is and what is wanted.
func TestMistakesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":     {"", "want the header"},
		"no header": {"0,ana,10,20,1e6,1000,1\n", "want the header"},
		"header cut": {"time_s,user\n", "line 1: want the header time_s,user,east_m,north_m,bits,cycles_per_bit,deadline_s; " +
			"column 3, east_m, is missing"},
		"header swapped":      {"time_s,user,north_m,east_m,bits,cycles_per_bit,deadline_s\n", `column 3 is "north_m", not east_m`},
		"header longer":       {strings.TrimSpace(header) + ",note\n", `column 8, "note", is one too many`},
		"header quoted badly": {"time_s,\"user\n", "want the header"},
		"header with a BOM":   {"\ufeff" + small, "begins with a byte order mark (BOM): save it as UTF-8 without one"},
		"semicolons":          {strings.ReplaceAll(small, ",", ";"), "separated by semicolons: save them separated by commas"},
		"no rows":             {header, "no rows"},
		"column missing":      {header + "0,ana,10,20,1e6,1000\n", "line 2: 6 columns, want 7"},
		"not a number":        {header + "0,ana,ten,20,1e6,1000,1\n", `line 2, column 3, east_m: "ten" is not a number`},
		"NaN":                 {header + "0,ana,10,NaN,1e6,1000,1\n", "line 2, column 4, north_m: NaN"},
		"infinite":            {header + "0,ana,10,20,Inf,1000,1\n", "bits: +Inf"},
		"negative time":       {header + "-1,ana,10,20,1e6,1000,1\n", "time_s: -1"},
		"out of order":        {small + "1,ana,30,40,2e6,500,0.5\n", "line 5, column 1, time_s: 1 after 2.75"},
		"user twice":          {small + "2.9,ana,30,40,2e6,500,0.5\n", `line 5: user "ana" stands twice in slot 2, already on line 4`},
		"no user":             {header + "0,,10,20,1e6,1000,1\n", "line 2, column 2, user"},
		"user too long":       {header + "0," + strings.Repeat("x", 129) + ",10,20,1e6,1000,1\n", "user"},
		"user not text":       {header + "0,\xff,10,20,1e6,1000,1\n", "UTF-8"},
		"half a bit":          {header + "0,ana,10,20,0.5,1000,1\n", "bits: 0.5, want 1 at least"},
		"no deadline":         {header + "0,ana,10,20,1e6,1000,0\n", "deadline_s: 0, want 0.001"},
		"too many cycles":     {header + "0,ana,10,20,1e12,2,1\n", "2e+12 cycles"},
		"quote left open":     {header + "0,\"ana,10,20,1e6,1000,1\n", "line 2: "},
		"quote in a name":     {header + "0,an\"a,10,20,1e6,1000,1\n", `line 2: bare "`},
		"far beyond the area": {header + "0,ana,1e6,20,1e6,1000,1\n", "east_m: 1e+06, want 0 to 100000"},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.want)
		}
	}
	if _, err := Parse(make([]byte, maxBytes+1)); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := Read("no-such.csv"); err == nil || !strings.Contains(err.Error(), "no-such.csv") ||
		!strings.Contains(err.Error(), "from the folder in which the program was started") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "no-such.csv")); err == nil || strings.Contains(err.Error(), "folder") {
		t.Errorf("a missing file by its full path: %v", err)
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a folder: %v", err)
	}
}

// In YAML a trace is a path; in JSON it is the path and the file's hash, and a
// file that has changed since is refused.
func TestReferences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.csv")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(small)
	var config struct {
		Trace *Trace `yaml:"trace"`
	}
	if err := configs.Decode([]byte("trace: "+path+"\n"), &config); err != nil {
		t.Fatal(err)
	}
	if config.Trace == nil || config.Trace.File != path || config.Trace.Slots() != 3 {
		t.Fatalf("%+v", config.Trace)
	}
	raw, err := json.Marshal(config.Trace)
	if err != nil {
		t.Fatal(err)
	}
	var again Trace
	if err := json.Unmarshal(raw, &again); err != nil || again.SHA256 != config.Trace.SHA256 || len(again.Users) != 2 {
		t.Fatalf("%+v, %v", again, err)
	}
	write(small + "3,ana,30,40,2e6,500,0.5\n")
	if err := json.Unmarshal(raw, &again); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("a changed file: %v", err)
	}
	write(header + "x,ana,30,40,2e6,500,0.5\n")
	if err := configs.Decode([]byte("trace: "+path+"\n"), &config); err == nil ||
		!strings.Contains(err.Error(), "line 2, column 1, time_s") || !strings.Contains(err.Error(), path) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("a mistake in the file: %v", err)
	}
}

// Whatever the file holds, a mistake is one line, and what passes keeps its order.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(header + "0,\"a\"\"b\",0,0,1,1,0.001\n1e5,c,0,0,0,0,0\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tr, err := Parse(raw)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is more than a line", err)
			}
			return
		}
		n := 0
		for first := 0; first < len(tr.rows); {
			slot := tr.rows[first].Slot
			rows := tr.Rows(slot)
			for i := range rows {
				if i > 0 && rows[i].User <= rows[i-1].User {
					t.Fatalf("slot %d: user %d after %d", slot, rows[i].User, rows[i-1].User)
				}
				if p := tr.Position(rows[i].User, slot); p != rows[i].Position {
					t.Fatalf("slot %d: user at %v, its row says %v", slot, p, rows[i].Position)
				}
			}
			n, first = n+len(rows), first+len(rows)
		}
		if n != len(tr.rows) {
			t.Fatalf("%d rows in slots, %d in all", n, len(tr.rows))
		}
	})
}
