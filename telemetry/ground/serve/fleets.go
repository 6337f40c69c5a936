package serve

import (
	"embed"
	"fmt"
	"net/http"
	"slices"

	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

//go:embed list page/icon.svg
var list embed.FS

// listFiles are the files of the list of fleets, which has the style of the page.
var listFiles = map[string]file{
	"/":          {"list/list.html", "text/html; charset=utf-8"},
	"/list.js":   {"list/list.js", "text/javascript; charset=utf-8"},
	"/icon.svg":  {"page/icon.svg", "image/svg+xml"},
	"/style.css": {"list/style.css", "text/css; charset=utf-8"},
}

// summary is a fleet's line in the list.
type summary struct {
	Fleet string `json:"fleet"`
	State string `json:"state"`
	Text  string `json:"text"`
	Stale bool   `json:"stale"` // lost, or of an unknown age
	Alarm bool   `json:"alarm"` // lost, or something needs somebody
}

func (s *Server) checkFleets() error {
	for i, f := range s.Fleets {
		if _, err := telemetry.NewTopics(f.Fleet); err != nil {
			return err
		}
		if f.Fleet == "." || f.Fleet == ".." {
			return fmt.Errorf("fleet %q cannot be listed: its name is part of an address", f.Fleet)
		}
		if slices.ContainsFunc(s.Fleets[:i], func(g *Server) bool { return g.Fleet == f.Fleet }) {
			return fmt.Errorf("fleet %s is named twice", f.Fleet)
		}
	}
	return nil
}

func (s *Server) showFleets(w http.ResponseWriter, _ *http.Request, _ *session) {
	lines := []summary{}
	for _, f := range s.Fleets {
		lines = append(lines, f.summary())
	}
	writeJSON(w, lines)
}

// summary is the fleet in a line, by the same ages as its page.
func (s *Server) summary() summary {
	x := &s.state
	x.mutex.Lock()
	defer x.mutex.Unlock()
	line := summary{Fleet: s.Fleet, State: "-", Text: "no status yet", Stale: true}
	q := x.link.Status
	if q == nil {
		return line
	}
	line.State = q.State
	ageS, lost := x.link.Age(s.Clock()).Seconds(), x.link.Lost(s.Clock())
	line.Stale = lost != "" || x.link.Retained
	switch {
	case lost != "":
		line.Text, line.Alarm = fmt.Sprintf("LINK LOST, last status %.0f s ago", ageS), true
	case x.link.Retained:
		line.Text = "kept by the broker, its age is unknown"
	default:
		line.Text = fmt.Sprintf("%.1f s old", ageS)
	}
	line.Text += fmt.Sprintf("; slot %d of %d, spent %.1f kJ", q.Slot, q.Slots, q.SpentJ/1000)
	if q.BudgetJ != nil {
		line.Text += fmt.Sprintf(" of %.1f kJ", *q.BudgetJ/1000)
	}
	line.Text += " " + command.ScopeText(q.Scope)
	for i := range q.Dangers {
		line.Text, line.Alarm = line.Text+"; "+command.DangerText(&q.Dangers[i]), true
	}
	return line
}
