//go:build real

package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/configs/built"
	"prefdt/configs/freeport"
	"prefdt/simbridge/fly"
	"prefdt/simbridge/report"
	"prefdt/telemetry"
)

var record = flag.Bool("record", false, "write the flight's screenshots into docs/images")

// A flight is flown wholly from the page, signed, against the simulated world: a budget, start
// by press until the autopilots are ready, a revision, hold, resume, return.
func TestFlightFromThePage(t *testing.T) {
	needBrowser(t)
	folder := t.TempDir()
	for name, path := range map[string]string{"leader": "prefdt/firmware", "ground": "prefdt/telemetry/ground"} {
		if err := built.Program(filepath.Join(folder, name), path); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(folder, "crew-1.key")
	public, err := telemetry.NewKey(key)
	if err != nil {
		t.Fatal(err)
	}
	address := func() string {
		at, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	const slotMS = 500 // a busy browser takes seconds for a press, of which the flight has 200
	c := fly.Default()
	c.Fleet, c.Out, c.Speed, c.TimeoutS = "practice", filepath.Join(folder, "out"), 1000/slotMS, 1200
	c.Broker.Listen = address()
	c.Parameters = map[string]float64{
		"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 12, "MPC_Z_VEL_MAX_UP": 20, "MPC_TKO_SPEED": 20, "MPC_Z_V_AUTO_DN": 20,
		"MPC_Z_VEL_MAX_DN": 20, "MPC_LAND_SPEED": 5, "COM_OF_LOSS_T": 10,
	}
	checkpoint, err := filepath.Abs("../../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("checkpoint: %s\nslots: 400\nslot_ms: %d\nreport_by_ms: 200\ndecide_by_ms: 360\nexit_when_done: true\ncommands: "+
		"{keys: {crew-1: %q}}\norigin: {latitude_deg: %v, longitude_deg: %v, amsl_m: %v}\naircraft:\n",
		checkpoint, slotMS, public, c.Origin.LatDeg, c.Origin.LonDeg, c.Origin.AltM)
	for i := range 2 {
		link := address()
		c.Aircraft = append(c.Aircraft, fly.AircraftConfig{SystemID: i + 1, Listen: "127.0.0.1:0", Partner: link})
		text += fmt.Sprintf("  - {system_id: %d, endpoint: %q}\n", i+1, "udp-listen:"+link)
	}
	c.Leader = fly.LeaderConfig{Command: []string{filepath.Join(folder, "leader")}, Config: filepath.Join(folder, "leader.yaml")}
	if err := os.WriteFile(c.Leader.Config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	flown := make(chan error, 1)
	out := &lines{}
	go func() { flown <- fly.Run(t.Context(), c, out) }()

	links := &lines{}
	ground := exec.CommandContext(t.Context(), filepath.Join(folder, "ground"), "serve", "-fleet", c.Fleet, "-broker",
		"tcp://"+c.Broker.Listen, "-listen", "127.0.0.1:0", "-key", key, "-timeout", "60s")
	ground.Stdout, ground.Stderr = links, os.Stderr
	ground.Cancel = func() error { return ground.Process.Signal(os.Interrupt) }
	if err := ground.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { ground.Cancel(); ground.Wait() }()
	open := func(role string, width, height int) *tab {
		b := newTab(t, width, height)
		b.until("the link", func() bool { return links.link(role) != "" })
		b.navigate(links.link(role))
		b.wait("document.getElementById('state').textContent === 'idle'")
		return b
	}
	phone, desk := open("command as crew-1", 390, 844), open("watch", 1280, 800)
	answered := func(text string) func() bool {
		return func() bool {
			return eval[bool](phone, fmt.Sprintf("document.querySelector('#answers li').textContent.includes(%q)", text))
		}
	}
	state := func(want string) {
		t.Helper()
		phone.wait(fmt.Sprintf("document.getElementById('state').textContent === %q", want))
	}
	budget := func(kilojoules int) {
		t.Helper()
		phone.focus("#energy")
		eval[any](phone, "document.getElementById('energy').select()")
		phone.call("Input.insertText", map[string]any{"text": fmt.Sprintf("%d kJ", kilojoules)}, nil)
		phone.waitText(fmt.Sprintf("end on %d kJ", kilojoules))
		phone.press("#send-budget", answered(fmt.Sprintf("crew-1: budget of %d kJ (target) accepted from slot ", kilojoules)))
	}
	budget(150)
	phone.until("start", func() bool { // refused while readiness is not there, with the reason
		n := eval[int](phone, "document.querySelectorAll('#answers li').length")
		phone.press("#act-start .hold", func() bool {
			return eval[bool](phone, fmt.Sprintf("document.querySelectorAll('#answers li').length > %d", n))
		})
		return answered("mission start accepted from slot 0")()
	})
	state("flying")
	slot := func(n int) {
		t.Helper()
		phone.wait(fmt.Sprintf("Number(document.getElementById('clock').textContent.split(' ')[1]) >= %d", n))
	}
	slot(20)
	budget(140)
	for _, b := range []*tab{phone, desk} {
		b.waitText("140.0 kJ target")
		b.waitText("budget 140 kJ") // the last command
	}
	if slot(40); *record {
		slot(80) // the pictures show more of a flight
	}
	for _, x := range []struct {
		name, at      string
		b             *tab
		width, height int
	}{{"console-phone.png", "header", phone, 390, 844}, {"console-commands.png", "#actions", phone, 390, 844},
		{"console-desk.png", "header", desk, 1280, 800}} {
		picture := x.b.screenshot(x.at)
		size, err := png.DecodeConfig(bytes.NewReader(picture))
		if err != nil || size.Width != x.width || size.Height != x.height || len(picture) < 20_000 {
			t.Errorf("%s is %d x %d, has %d bytes, %v", x.name, size.Width, size.Height, len(picture), err)
		}
		if *record {
			if err := os.WriteFile(filepath.Join("../../../docs/images", x.name), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	phone.press("#act-hold .hold", answered("mission hold accepted"))
	state("holding")
	phone.press("#act-resume .hold", answered("mission resume accepted"))
	state("flying")
	phone.press("#act-return .hold", answered("mission return accepted"))
	state("done")
	select {
	case err := <-flown:
		// How many slots a machine misses beside its browsers is not the page's matter.
		raw, _ := os.ReadFile(filepath.Join(c.Out, "summary.json"))
		var s report.Summary
		if e := json.Unmarshal(raw, &s); e != nil || s.State != telemetry.StateDone || !s.Landed || s.MissedSlots > s.Slots ||
			err != nil && err.Error() != strings.Join(s.Problems, "; ") {
			t.Errorf("the flight: %v, %v; %d slots flown, %d missed, %s, landed %v\n%s", err, e, s.Slots, s.MissedSlots, s.State, s.Landed,
				out.text.String())
		}
	case <-time.After(browserTimeout):
		t.Error("the flight does not end")
	}
	paths, _ := filepath.Glob(filepath.Join(c.Out, "leader/missions/*.json.gz")) // written before the leader ended
	if len(paths) != 1 {
		t.Fatalf("files of the mission: %q", paths)
	}
	log, err := exec.Command(filepath.Join(folder, "ground"), "log", paths[0]).CombinedOutput()
	for _, want := range []string{": done, slots 0 to ", "2 aircraft", "start accepted from slot 0 (id ",
		"budget 140 kJ, target accepted from slot ", "return accepted from slot ", "key crew-1)"} {
		if err != nil || !strings.Contains(string(log), want) {
			t.Errorf("%v: no %q in the log: %s", err, want, log)
		}
	}
	desk.wait("document.body.dataset.link === 'lost'") // the broker ended with the flight
	if !strings.Contains(eval[string](desk, "document.getElementById('aircraft').innerText"), "landed") {
		t.Error("no aircraft is shown as landed")
	}
}

// screenshot is of the screen, scrolled to an element.
func (b *tab) screenshot(selector string) []byte {
	b.t.Helper()
	eval[any](b, fmt.Sprintf("document.querySelector(%q).scrollIntoView({behavior: 'instant'}), new Promise(done => "+
		"requestAnimationFrame(() => requestAnimationFrame(() => done(null))))", selector))
	var out struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &out)
	picture, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return picture
}
