// Package docs holds what people read. Its test runs the commands in it, and checks
// links, lengths, fragments of configurations, and references to documents.
package docs

import (
	"bytes"
	"encoding/csv"
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
	"testing"
	"unicode/utf8"

	"prefdt/configs"
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
