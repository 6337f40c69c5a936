package docs

import (
	"flag"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "draw docs/images/architecture.svg anew")

// The picture of docs/architecture.md: what runs where, and the way that data take. It is text,
// so that a change of it can be read: `make pictures` draws it.
const (
	control = "#555555" // messages by which is decided
	data    = "#0b62c4" // bytes of a task
	flight  = "#b4490b" // what moves aircraft
)

type box struct {
	x, y, width, height int
	name, what          string
	group               bool
}

type arrow struct {
	x1, y1, x2, y2 int
	colour, text   string
	above          int // of the arrow's middle is the text, px
}

var (
	boxes = []box{
		{450, 30, 440, 250, "aircraft 1, which leads", "", true},
		{450, 310, 440, 100, "aircraft 2 and each other", "", true},
		{20, 40, 150, 54, "ground", "the crew's tool", false},
		{20, 180, 150, 90, "user", "reports, splits, joins", false},
		{280, 40, 80, 195, "MQTT", "broker", false},
		{550, 60, 140, 64, "leader", "decides each slot", false},
		{780, 60, 90, 64, "ledger", "on disk", false},
		{760, 196, 120, 64, "autopilot", "PX4 or ArduPilot", false},
		{550, 196, 140, 64, "worker", "shares the CPU", false},
		{550, 334, 140, 60, "worker", "shares the CPU", false},
		{760, 334, 120, 60, "autopilot", "PX4 or ArduPilot", false},
	}
	arrows = []arrow{
		{170, 58, 280, 58, control, "commands", 6},
		{280, 80, 170, 80, control, "status", -16},
		{170, 196, 280, 196, control, "report, result", 6},
		{280, 218, 170, 218, control, "offer, decision", -15},
		{360, 72, 550, 72, control, "reports, results, commands", 6},
		{550, 96, 360, 96, control, "offer, decisions with grants", -16},
		{550, 210, 360, 210, control, "CPU, functions", 6},
		{690, 92, 780, 92, control, "write", 6},
		{690, 112, 790, 196, flight, "MAVLink", 6},
		{660, 124, 770, 334, flight, "MAVLink", -50},
		{170, 256, 550, 246, data, "by TLS: grant, part of the input; output", -18},
		{170, 266, 550, 360, data, "grant, input; output", -22},
	}
)

func drawPicture() string {
	var out strings.Builder
	p := func(format string, values ...any) { fmt.Fprintf(&out, format+"\n", values...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 910 470" font-family="sans-serif" font-size="12">`)
	p(`<rect width="910" height="470" fill="#ffffff"/><defs>`)
	for i, colour := range []string{control, data, flight} {
		p(`<marker id="m%d" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">`+
			`<path d="M0 0L8 4L0 8z" fill="%s"/></marker>`, i, colour)
	}
	p(`</defs>`)
	for _, b := range boxes {
		fill, dash := "#eef3f8", ""
		if b.group {
			fill, dash = "#ffffff", ` stroke-dasharray="5 4"`
		}
		p(`<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#888888"%s/>`, b.x, b.y, b.width, b.height, fill, dash)
		if b.group {
			p(`<text x="%d" y="%d" fill="#666666">%s</text>`, b.x+10, b.y+17, html.EscapeString(b.name))
			continue
		}
		middle := b.y + b.height/2
		p(`<text x="%d" y="%d" text-anchor="middle" font-weight="bold">%s</text>`, b.x+b.width/2, middle-3, html.EscapeString(b.name))
		p(`<text x="%d" y="%d" text-anchor="middle" fill="#444444">%s</text>`, b.x+b.width/2, middle+13, html.EscapeString(b.what))
	}
	for _, a := range arrows {
		marker, both := map[string]int{control: 0, data: 1, flight: 2}[a.colour], ""
		if a.colour != control { // answers come the same way
			both = fmt.Sprintf(` marker-start="url(#m%d)"`, marker)
		}
		p(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="1.6" marker-end="url(#m%d)"%s/>`,
			a.x1, a.y1, a.x2, a.y2, a.colour, marker, both)
		p(`<text x="%d" y="%d" text-anchor="middle" fill="%s" stroke="#ffffff" stroke-width="3" paint-order="stroke">%s</text>`,
			(a.x1+a.x2)/2, (a.y1+a.y2)/2-a.above, a.colour, html.EscapeString(a.text))
	}
	for i, x := range []struct{ colour, text string }{
		{control, "messages"}, {data, "a task's bytes, there and back"}, {flight, "setpoints; positions and joules"},
	} {
		p(`<text x="%d" y="450" fill="%s" font-weight="bold">%s</text>`, 20+230*i, x.colour, html.EscapeString(x.text))
	}
	p(`</svg>`)
	return out.String()
}

// The picture is the one that is drawn, and the page shows it.
func TestPicture(t *testing.T) {
	const path = "docs/images/architecture.svg"
	if *record {
		if err := os.WriteFile("../"+path, []byte(drawPicture()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != drawPicture() {
		t.Errorf("%s is not what is drawn: make pictures", path)
	}
	if !strings.Contains(read(t, "docs/architecture.md"), "images/architecture.svg") {
		t.Error("docs/architecture.md does not show its picture")
	}
}
