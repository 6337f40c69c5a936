// Package docs holds what people read. Its test runs the commands in it, and checks
// links, lengths, fragments of configurations, and references to documents.
package docs

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"prefdt/configs"
	"prefdt/configs/built"
	"prefdt/configs/freeport"
	"prefdt/firmware/config"
	"prefdt/firmware/envelope"
	"prefdt/telemetry"
)

const root = ".."

// maxLines is how long a document may be.
func maxLines(path string) int {
	switch filepath.Base(path) {
	case "README.md":
		return 100
	case "results.md", "study.md": // figures; made by offline study
		return 1 << 20
	}
	if strings.HasPrefix(path, "offline/paper/results/") { // figures; made by offline paper
		return 1 << 20
	}
	return 200
}

// repositoryFiles calls f with each file that is neither built nor flown.
func repositoryFiles(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if name == ".git" || name == "bin" || name == "out" {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && name != ".git" { // a worktree's is a file
			f(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// documents returns every Markdown file of the repository.
func documents(t *testing.T) (paths []string) {
	repositoryFiles(t, func(path string) {
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
	})
	if len(paths) < 10 {
		t.Fatalf("only %d documents found", len(paths))
	}
	return paths
}

func TestLength(t *testing.T) {
	for _, path := range documents(t) {
		if n, most := strings.Count(read(t, path), "\n"), maxLines(path); n > most {
			t.Errorf("%s has %d lines, want %d at most", path, n, most)
		}
	}
}

// No line of a Go file is wider than 140 columns, a tab as four.
func TestWidth(t *testing.T) {
	const widest, tab = 140, 4
	files := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && (e.Name()[0] == '.' || e.Name() == "out" || e.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if n := utf8.RuneCountInString(line) + (tab-1)*strings.Count(line, "\t"); n > widest {
				t.Errorf("%s:%d has %d columns, want %d at most", path, i+1, n, widest)
			}
		}
		return err
	})
	if err != nil || files < 500 {
		t.Errorf("%d files, %v", files, err)
	}
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor    = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// Every relative link names a file, and a heading in it if it has an anchor.
func TestLinks(t *testing.T) {
	links := 0
	for _, path := range documents(t) {
		for _, match := range linkPattern.FindAllStringSubmatch(read(t, path), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			target = filepath.Join(filepath.Dir(path), target)
			if match[1][0] == '#' {
				target = path
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", path, match[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", path, match[1], target)
			}
		}
	}
	if links < 30 {
		t.Errorf("only %d links found", links)
	}
}

func anchors(text string) (all []string) {
	for _, match := range headingPattern.FindAllStringSubmatch(text, -1) {
		heading := notInAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
		all = append(all, strings.ReplaceAll(heading, " ", "-"))
	}
	return all
}

var (
	documentPattern = regexp.MustCompile(`[A-Za-z0-9_./-]*[A-Za-z0-9_-]\.md\b`)
	// Documents by which the project was planned, and which do not ship.
	absentPattern = regexp.MustCompile(`\b(CONTRACT|DESIGN|FIELD_NOTES|FIELD_WORLDS|LAB'?s)\b|\(faults? \d`)
)

// NOTICE has the licence of every module that the programs are linked with.
func TestNotice(t *testing.T) {
	want, err := exec.Command(filepath.Join(root, ".ci/notice")).Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "NOTICE"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("NOTICE is not what `make notice` writes")
	}
}

// No file points at a document that is not in the repository.
func TestNoAbsentDocuments(t *testing.T) {
	checked := 0
	repositoryFiles(t, func(path string) {
		text := []byte(read(t, path))
		if bytes.IndexByte(text, 0) >= 0 || strings.HasPrefix(path, "docs/docs_test") || strings.Contains(path, "testdata/") ||
			strings.HasSuffix(path, "/uplot.txt") || path == "NOTICE" /* licences */ {
			return
		}
		checked++
		for i, line := range strings.Split(string(text), "\n") {
			if found := absentPattern.FindString(line); found != "" {
				t.Errorf("%s:%d names %q: %s", path, i+1, found, strings.TrimSpace(line))
			}
			if strings.Contains(line, "](") {
				continue // TestLinks
			}
			for _, name := range documentPattern.FindAllString(line, -1) {
				if !slices.ContainsFunc([]string{name, filepath.Join("docs", name), filepath.Join(filepath.Dir(path), name),
					filepath.Join("offline/study/results", name), filepath.Join("offline/paper/results", name)}, exists) {
					t.Errorf("%s:%d names %s, which is not there", path, i+1, name)
				}
			}
		}
	})
	if checked < 300 {
		t.Errorf("only %d files found", checked)
	}
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

var testPattern = regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*\b`)

// Every test that a document names is there.
func TestNamedTests(t *testing.T) {
	functions := map[string]bool{}
	repositoryFiles(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, match := range regexp.MustCompile(`(?m)^func (\w+)\(`).FindAllStringSubmatch(read(t, path), -1) {
				functions[match[1]] = true
			}
		}
	})
	found := 0
	for _, path := range documents(t) {
		for _, name := range testPattern.FindAllString(read(t, path), -1) {
			found++
			if !functions[name] {
				t.Errorf("%s names %s, and no test is called so", path, name)
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d names of tests found", found)
	}
}

// Every Go package stands in the table of docs/architecture.md: by its path, or by the
// rest of it behind one of the same folder in the same row.
func TestPackagesListed(t *testing.T) {
	packages := map[string]bool{}
	repositoryFiles(t, func(path string) {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata/") {
			packages[filepath.Dir(path)] = true
		}
	})
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		folder := ""
		for i, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if i == 0 {
				folder = filepath.Dir(name[1])
			}
			listed[name[1]], listed[filepath.Join(folder, name[1])] = true, true
		}
	}
	if len(packages) < 50 {
		t.Errorf("only %d packages found", len(packages))
	}
	for name := range packages {
		if !listed[name] {
			t.Errorf("docs/architecture.md does not list %s", name)
		}
	}
	for name := range listed {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil && !packages[name] {
			t.Errorf("docs/architecture.md lists %s, which is no package", name)
		}
	}
}

// What documents state of times and lengths that the leader, its service or the crew's tool
// has by default. Figures that the leader's packages keep for themselves are held by their
// own tests.
func TestStatedDefaults(t *testing.T) {
	f := config.Defaults().Flight
	seconds := func(path, key string) string {
		match := regexp.MustCompile(`(?m)^` + key + `[=:] ?(\d+)$`).FindStringSubmatch(read(t, path))
		if match == nil {
			t.Fatalf("%s has no %s in whole seconds", path, key)
		}
		return match[1]
	}
	for text, path := range map[string]string{
		fmt.Sprintf("holds after %v mission seconds, returns after %v;", f.BrokerHoldS, f.BrokerReturnS):              "docs/failures.md",
		fmt.Sprintf("hold after %v mission seconds, return after %v (configurable)", f.BrokerHoldS, f.BrokerReturnS):  "docs/wire.md",
		fmt.Sprintf("holds %v s after the last heartbeat or command, returns after %v s", f.CrewHoldS, f.CrewReturnS): "docs/failures.md",
		fmt.Sprintf("none for %v s holds and for %v s returns", f.CrewHoldS, f.CrewReturnS):                           "docs/wire.md",
		fmt.Sprintf("silent for %v s, the fleet holds; for %v s, it returns", f.CrewHoldS, f.CrewReturnS):             "docs/crew.md",
		fmt.Sprintf("walk out of range, and the leader holds after %v s", f.CrewHoldS):                                "docs/console.md",
		fmt.Sprintf("the next comes to its home once the one before is %v m lower", envelope.LandingBelowM):           "docs/failures.md",
		"loop stalled for " + seconds("configs/systemd/prefdt-leader.service", "WatchdogSec") + " s | systemd kills":  "docs/failures.md",
		"after " + seconds("configs/ground.yaml", "stale_s") + " s LINK LOST":                                         "docs/failures.md",
	} {
		if !strings.Contains(strings.Join(strings.Fields(read(t, path)), " "), text) {
			t.Errorf("%s does not say %q", path, text)
		}
	}
}

// figurePattern is a number with decimals.
var figurePattern = regexp.MustCompile(`\d+\.\d+`)

// records are the figures of the stored tables: of each arm, and under "" of all, and what the paper prints.
type records map[string][]string

func readRecords(t *testing.T) records {
	stored := records{}
	repositoryFiles(t, func(path string) {
		if !strings.HasPrefix(path, "offline/") || !strings.Contains(path, "/results/") {
			return
		}
		if filepath.Ext(path) == ".txt" { // what a command printed, with its record
			text, record, recorded := strings.Cut(read(t, path), "\nrecord: ")
			if !recorded || !strings.Contains(record, "seeds ") {
				t.Errorf("%s has no record of how it was measured", path)
			}
			stored[path] = figurePattern.FindAllString(text, -1)
			stored[""] = append(stored[""], stored[path]...)
		}
		if filepath.Ext(path) == ".md" { // written by a command, with the figures in the units of pages
			stored[path] = figurePattern.FindAllString(read(t, path), -1)
		}
		if filepath.Ext(path) != ".csv" {
			return
		}
		rows, err := csv.NewReader(strings.NewReader(read(t, path))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			figures := figurePattern.FindAllString(strings.Join(row, " "), -1)
			stored[""], stored[path] = append(stored[""], figures...), append(stored[path], figures...)
			for _, name := range row {
				stored[name] = append(stored[name], figures...)
				for _, arm := range armPattern.FindAllStringSubmatch(name, -1) { // of a difference
					stored[arm[1]] = append(stored[arm[1]], figures...)
				}
			}
		}
	})
	stored["the paper"] = figurePattern.FindAllString(read(t, "offline/paper/rows.yaml"), -1)
	return stored
}

// armPattern is an arm's name in a table.
var armPattern = regexp.MustCompile("`([^`]+)`")

// unsupported returns the figures of a table's row that are neither the rounded ones of a stored row of an arm that it names, of
// any stored row if it names none, nor the paper's.
func (stored records) unsupported(row string) (missing []string) {
	have := stored["the paper"]
	arms := 0
	for _, name := range armPattern.FindAllStringSubmatch(row, -1) {
		for _, arm := range []string{name[1], name[1] + "-whole"} { // at its own settings, and at preferences even from 0 to 1
			if figures := stored[arm]; figures != nil {
				have, arms = append(slices.Clip(have), figures...), arms+1
			}
		}
	}
	if arms == 0 {
		have = append(slices.Clip(have), stored[""]...)
	}
	decimals := func(text string) float64 { return math.Pow(10, -float64(len(text)-strings.Index(text, ".")-1)) }
	for _, figure := range figurePattern.FindAllString(row, -1) {
		x, _ := strconv.ParseFloat(figure, 64)
		if !slices.ContainsFunc(have, func(text string) bool {
			y, _ := strconv.ParseFloat(text, 64)
			if len(text)-strings.Index(text, ".") == len(figure)-strings.Index(figure, ".") {
				return x == y
			}
			return math.Abs(x-y) <= 0.5001*(decimals(figure)+decimals(text)) && decimals(text) < decimals(figure)
		}) {
			missing = append(missing, figure)
		}
	}
	return missing
}

// Every figure in a table of what the comparison measured is in a table that a command wrote from stored results, or is the paper's.
func TestFiguresAreStored(t *testing.T) {
	stored := records{"prefdt": {"101.288"}, "": {"101.288", "5.5"}, "the paper": {"90.28"}}
	for row, want := range map[string]int{
		"| `prefdt` | 101.29 | *90.28* |": 0, "| `prefdt` | 101.30 | 5.5 |": 2, "| all | 101.3 | 5.5 |": 0, "| all | 101.2881 |": 1,
		"| all | 5.4 |": 1,
	} {
		if missing := stored.unsupported(row); len(missing) != want {
			t.Errorf("%s: %q are not stored, want %d", row, missing, want)
		}
	}
	stored = readRecords(t)
	found := 0
	for path, end := range map[string]string{"docs/comparison.md": "\n## The paper's tables", "docs/paper.md": "\n## Train it"} {
		text, _, ended := strings.Cut(read(t, path), end)
		if !ended {
			t.Errorf("%s has no %q", path, end)
		}
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if !strings.HasPrefix(line, "|") || strings.HasPrefix(lines[i+1], "|---") { // no row, or its heads
				continue
			}
			found += len(figurePattern.FindAllString(line, -1))
			for _, figure := range stored.unsupported(line) {
				t.Errorf("%s:%d: no stored table has %s: %s", path, i+1, figure, line)
			}
		}
	}
	if found < 120 {
		t.Errorf("only %d figures found", found)
	}
}

// sectionSources are the stored files that sections of pages rest on, by page and by how their headings begin; the first section of a
// page is its own title's. A section that is not among them says that its figures are not stored.
var sectionSources = map[string]map[string][]string{
	"README.md": {},
	"docs/results.md": {
		"# Results": {"evaluate/results/front.txt", "evaluate/results/uplink.txt", "study/results/study.md",
			"paper/results/teachers.csv"},
		"The front":                         {"evaluate/results/front.txt", "paper/results/teachers.csv", "study/results/study.md"},
		"Lost and late reports":             {"evaluate/results/uplink.txt"},
		"Other fleets, missions and worlds": {},
		"Against the paper's form":          {"study/results/study.md"},
	},
	"docs/comparison.md": {"": {"paper/results/*.csv"}},
	"docs/paper.md":      {"": {"paper/results/*.csv"}},
	"docs/decisions.md":  {"": {"study/results/study.md"}},
	"docs/departures.md": {},
	"docs/field.md":      {},
	"docs/duty.md":       {"What it brings": {"evaluate/results/packs-*.txt"}, "What falls short": {"evaluate/results/packs-*.txt"}},
	"docs/beliefs.md":    {},
	"docs/broker.md":     {},
	"docs/programs.md":   {},
}

// notStored is said in a section whose figures no stored file has, or in a row of a table.
const notStored = "not stored"

var notStoredRow = regexp.MustCompile(`(?m)^\|.*not stored.*$`)

// notMeasured are figures of these pages that nobody measures, but chooses.
var notMeasured = regexp.MustCompile(`x\d\.\d+|\d+\.\d+ (kJ|m/s|km|million|core-hours|hours|slots|times|of the|of a slot)|` +
	`\d+\.\d+-dev|(PX4|Go|MQTT|mosquitto) \d\.\d+(\.\d+)?`)

// fencedBlocks are commands, files and pictures in characters.
var fencedBlocks = regexp.MustCompile("(?ms)^```.*?^```$")

// unstored returns the figures of a text that no stored figure is rounded to, left out what is chosen.
func (stored records) unstored(text string, sources []string) []string {
	own := records{"the paper": stored["the paper"]}
	for name, figures := range stored {
		for _, pattern := range sources {
			if match, _ := filepath.Match("offline/"+pattern, name); match {
				own[""] = append(own[""], figures...)
			}
		}
	}
	text = notMeasured.ReplaceAllString(fencedBlocks.ReplaceAllString(text, ""), "")
	return own.unsupported(strings.ReplaceAll(text, "`", "'")) // whatever arms it names
}

// Every figure with decimals on a page of results is in a file that its section rests on, is the paper's, or stands in a section that
// says it is not stored.
func TestPagesOfResults(t *testing.T) {
	stored := records{"offline/x/results/a.csv": {"101.288"}, "offline/x/results/b.txt": {"5.5"}, "the paper": {"90.28"}}
	for text, want := range map[string]int{
		"101.29e6, of the paper's 90.28, under x1.25 at 40.5 kJ": 0, "101.3 and `5.5`": 1, "```sh\noffline -share 0.123\n```\n": 0,
	} {
		if missing := stored.unstored(text, []string{"x/results/*.csv"}); len(missing) != want {
			t.Errorf("%q: %q are not stored, want %d", text, missing, want)
		}
	}
	stored = readRecords(t)
	used := map[string]bool{}
	for path, sections := range sectionSources {
		for _, section := range strings.Split(read(t, path), "\n## ") {
			heading, _, _ := strings.Cut(section, "\n")
			var sources []string
			for begin, list := range sections {
				if strings.HasPrefix(heading, begin) {
					sources, used[path+begin] = list, true
				}
			}
			section = notStoredRow.ReplaceAllString(section, "")
			if missing := stored.unstored(section, sources); len(missing) > 0 && !strings.Contains(section, notStored) {
				t.Errorf("%s, %q: no stored result has %q, and the section does not say that they are %s", path, heading, missing,
					notStored)
			}
		}
		for begin := range sections {
			if !used[path+begin] {
				t.Errorf("%s has no section %q", path, begin)
			}
		}
	}
}

// block is a fenced block.
type block struct {
	path     string
	line     int
	language string
	marks    []string // after the language
	text     string
}

func (b *block) mark(name string) (value string, marked bool) {
	for _, mark := range b.marks {
		if key, value, _ := strings.Cut(mark, "="); key == name {
			return value, true
		}
	}
	return "", false
}

var commandPattern = regexp.MustCompile(`^ {4}(make|bin/|go |ground |leader |offline |simbridge )`)

// blocks returns the fenced blocks of a document. Each has a language, so that no
// command hides in one.
func blocks(t *testing.T, path string) (all []block) {
	var b *block
	for i, line := range strings.Split(read(t, path), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && b == nil:
			words := append(strings.Fields(info), "")
			if words[0] == "" {
				t.Errorf("%s:%d: a block without a language", path, i+1)
			}
			b = &block{path: path, line: i + 1, language: words[0], marks: words[1:]}
		case fence:
			all = append(all, *b)
			b = nil
		case b != nil:
			b.text += line + "\n"
		case commandPattern.MatchString(line):
			t.Errorf("%s:%d: a command outside of a fenced block: %s", path, i+1, line)
		}
	}
	return all
}

// Fragments of configurations have keys that there are.
func TestConfigurations(t *testing.T) {
	found := 0
	for _, path := range documents(t) {
		for _, b := range blocks(t, path) {
			if b.language != "yaml" {
				continue
			}
			found++
			var c any
			if _, marked := b.mark("leader"); marked {
				defaults := config.Defaults()
				c = &defaults
			} else if _, marked := b.mark("ground"); marked {
				c = &struct {
					Fleet, Key, Name string
					Broker           telemetry.Broker
				}{}
			} else {
				t.Errorf("%s:%d: whose configuration is it? want yaml leader or yaml ground", b.path, b.line)
				continue
			}
			if err := configs.Decode([]byte(b.text), c); err != nil {
				t.Errorf("%s:%d: %v", b.path, b.line, err)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d fragments found", found)
	}
}

// runs reports whether the block's commands are run here, and not only checked.
func (b *block) runs() bool {
	if _, marked := b.mark("check"); marked {
		return false
	}
	if program, marked := b.mark("needs"); marked {
		_, err := exec.LookPath(program)
		return err == nil
	}
	return true
}

// TestMain has all pages that fly do so beside each other: they wait for the clock most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == at.DefValue {
		flag.Set("test.parallel", "6")
	}
	os.Exit(m.Run())
}

// Every command in the documents is run in a copy of the repository, one shell for
// each document; those that need hours, hardware, root or the like are checked for
// programs, flags and files that are not there. A document that flies waits for the clock
// most of the time: it has a copy and ports of its own, and the others run meanwhile.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs and flies")
	}
	folder := t.TempDir()
	copyRepository(t, folder, freePorts(t))
	// Programs that other tests start, too. make finds them up to date, and builds the rest.
	for _, of := range []string{"firmware", "simbridge", "offline", "telemetry/ground", "firmware/worker", "firmware/user"} {
		name := filepath.Base(of)
		if of == "firmware" {
			name = "leader"
		}
		if err := built.Program(filepath.Join(folder, "bin", name), "prefdt/"+of); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("make", "build")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	run, checked := 0, 0
	type document struct{ name, script string }
	var flying, computing []document
	for _, path := range documents(t) {
		var script strings.Builder
		for _, b := range blocks(t, path) {
			if b.language != "sh" {
				continue
			}
			if !b.runs() {
				checkBlock(t, folder, &b)
				checked++
				continue
			}
			run++
			if _, marked := b.mark("terminal"); marked {
				fmt.Fprintf(&script, "{\n%s} >terminal-%d.log 2>&1 &\n", b.text, b.line)
			} else {
				fmt.Fprintf(&script, "echo '# %s:%d'\nset -x\n%s{ set +x; } 2>/dev/null\n", b.path, b.line,
					strings.ReplaceAll(b.text, "bin/simbridge fly ", "fly "))
			}
		}
		switch d := (document{filepath.Base(path), script.String()}); {
		case strings.Contains(d.script, "fly -config "):
			flying = append(flying, d)
		case d.script != "":
			computing = append(computing, d)
		}
	}
	t.Logf("%d blocks run, %d checked", run, checked)
	if run < 8 || checked < 8 || len(flying) < 2 {
		t.Errorf("%d blocks run, %d checked, %d documents fly: want all in plenty", run, checked, len(flying))
	}
	for _, d := range flying {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			own, ports := t.TempDir(), freePorts(t)
			copyRepository(t, own, ports)
			if err := os.Symlink(filepath.Join(folder, "bin"), filepath.Join(own, "bin")); err != nil {
				t.Fatal(err)
			}
			runScript(t, own, ports.Replace(d.script))
		})
	}
	t.Run("computing", func(t *testing.T) {
		t.Parallel()
		for _, d := range computing {
			t.Run(d.name, func(t *testing.T) { runScript(t, folder, d.script) })
		}
	})
}

// freePorts gives the ports of the shipped configurations free ones in their place.
func freePorts(t *testing.T) *strings.Replacer {
	var pairs []string
	for _, port := range []string{"18830", "14540", "14541", "14550", "14580", "14581", "17300"} {
		free, err := freeport.Port()
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, port, strconv.Itoa(free))
	}
	return strings.NewReplacer(pairs...)
}

func copyRepository(t *testing.T, folder string, ports *strings.Replacer) {
	repositoryFiles(t, func(path string) {
		from := filepath.Join(root, path)
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		text := read(t, path)
		if filepath.Dir(path) == "configs" && filepath.Ext(path) == ".yaml" {
			text = ports.Replace(text)
		}
		to := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	})
}

// flyInRealTime is a flight that may end with an error where this machine was too busy for it: slots that were missed.
const flyInRealTime = `fly() {
	bin/simbridge fly "$@" >fly.log 2>&1 || { cat fly.log; grep -q 'slots were missed' fly.log; }
}
`

func runScript(t *testing.T, folder, script string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-eu", "-c", flyInRealTime+script)
	shell.Dir = folder
	// `make lint` vets, once.
	shell.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"), "GOFLAGS=-trimpath -vet=off")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the shell's terminals end with it
	group := func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) }
	shell.Cancel, shell.WaitDelay = group, 10*time.Second
	var output bytes.Buffer
	shell.Stdout, shell.Stderr = &output, &output
	err := shell.Run()
	if shell.Process != nil {
		for range 300 { // until the last of the terminals has ended, and writes nothing more
			if group() != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(folder, "terminal-*.log"))
		for _, path := range logs {
			raw, _ := os.ReadFile(path)
			t.Logf("%s, its end:\n%s", filepath.Base(path), raw[max(0, len(raw)-2000):])
		}
		t.Errorf("%v\n%s", err, &output)
	}
}

// What a checked block may call: programs of this repository, whose flags are
// checked, and commands of the shell and the system, which are not.
var (
	programs       = []string{"leader", "simbridge", "offline", "ground", "worker"}
	systemCommands = strings.Fields("apt-get cd exec export install journalctl kill mkdir mosquitto mosquitto_pub mosquitto_sub python3 " +
		"rm sbatch sed sudoedit systemctl")
)

// checkBlock checks the commands of a block without running them.
func checkBlock(t *testing.T, folder string, b *block) {
	where := fmt.Sprintf("%s:%d", b.path, b.line)
	reason, _ := b.mark("check")
	text := regexp.MustCompile(`(?m)\s*#.*$`).ReplaceAllString(strings.ReplaceAll(b.text, "\\\n", " "), "")
	for _, line := range regexp.MustCompile(`[\n;|&()]+`).Split(text, -1) {
		words := strings.Fields(line)
		for len(words) > 0 && (words[0] == "sudo" || words[0] == "-u" || words[0] == "prefdt" || words[0] == "prefdt-worker" ||
			regexp.MustCompile(`^[A-Z_0-9]+=`).MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		for _, word := range words {
			if strings.HasPrefix(word, "configs/") && !exists(word) {
				t.Errorf("%s: no file %s", where, word)
			}
		}
		checkCommand(t, folder, where, words)
		if reason == "test" {
			checkTests(t, where, words)
		}
		if reason == "ci" && !runInCI(t, line) {
			t.Errorf("%s: .ci/run does not run %q", where, strings.TrimSpace(line))
		}
	}
}

// checkCommand checks one command: that there is its program, with its flags, its
// target, its package.
func checkCommand(t *testing.T, folder, where string, words []string) {
	switch program := strings.TrimPrefix(words[0], "bin/"); {
	case slices.Contains(programs, program):
		checkFlags(t, folder, where, program, words[1:])
	case program == "make":
		for _, target := range words[1:] {
			if !strings.Contains(target, "=") && !strings.Contains(read(t, "Makefile"), "\n"+target+":") {
				t.Errorf("%s: no target %s", where, target)
			}
		}
	case program == "go":
		for _, word := range words[1:] {
			if strings.HasPrefix(word, "./") && !exists(strings.TrimSuffix(word, "/...")) {
				t.Errorf("%s: no package %s", where, word)
			}
		}
	case !slices.Contains(systemCommands, program) && !strings.HasPrefix(program, "$"):
		t.Errorf("%s: what is %q?", where, program)
	}
}

// checkTests checks that a command is `go test` of packages, with a test in them where it names one: `make test` runs them.
func checkTests(t *testing.T, where string, words []string) {
	t.Helper()
	if len(words) < 3 || words[0] != "go" || words[1] != "test" {
		t.Errorf("%s: %q is not `go test` of packages", where, words)
		return
	}
	name := "func Test"
	var sources strings.Builder
	for i, word := range words[2:] {
		switch {
		case words[i+1] == "-run":
			name = "func " + word + "("
		case strings.HasPrefix(word, "./"):
			paths, _ := filepath.Glob(filepath.Join(root, word, "*_test.go"))
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				sources.Write(text)
			}
		}
	}
	if !strings.Contains(sources.String(), name) {
		t.Errorf("%s: the packages of %q have no %s", where, words, name)
	}
}

// runInCI reports whether .ci/run has a command, as it stands or, for make, with
// all its targets.
func runInCI(t *testing.T, line string) bool {
	ci := read(t, ".ci/run")
	words := strings.Fields(line)
	if words[0] != "make" {
		return strings.Contains(ci, strings.Join(words, " "))
	}
	return !slices.ContainsFunc(words[1:], func(target string) bool {
		return !regexp.MustCompile(`(?m)^\s*make( .*)? ` + target + `\b|^\s*make ` + target + `\b`).MatchString(ci)
	})
}

// helps are what programs said of their commands: the documents call most of them more than once.
var helps = map[string]string{}

// checkFlags looks for each flag of a command in the program's help.
func checkFlags(t *testing.T, folder, where, program string, words []string) {
	args := []string{"-h"}
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		args = []string{words[0], "-h"}
	}
	called := program + " " + strings.Join(args, " ")
	help, known := helps[called]
	if !known {
		text, err := exec.Command(filepath.Join(folder, "bin", program), args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %s: %v\n%s", where, called, err, text)
			return
		}
		help = string(text)
		helps[called] = help
	}
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(name, "-") && !regexp.MustCompile(regexp.QuoteMeta(name)+`\b`).MatchString(help) {
			t.Errorf("%s: %s lists no flag %s", where, called, name)
		}
	}
}
