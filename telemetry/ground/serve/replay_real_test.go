//go:build real

package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// The figures in the browser are those that were shown live. The page goes forth and back in them by
// mouse and by keyboard, and asks for nothing live.
func TestPageReplay(t *testing.T) {
	needBrowser(t)
	var x *flown
	simnet.Bubble(t, func(t *testing.T) { x = flyMission(t, replayedSlots) })
	shown := x.show(t)
	c := startConsole(t, func(c *console) { c.Operators, c.Replay = nil, x.flight })
	var r replay
	if err := json.Unmarshal(c.replay, &r); err != nil {
		t.Fatal(err)
	}

	b := c.open(t, "watch", 1280, 800)
	if got := eval[string](b, "document.body.dataset.role"); got != "replay" {
		t.Fatalf("role %q", got)
	}
	b.wait("document.getElementById('clock').textContent !== ''")
	frame := "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))"
	drawn := eval[map[string]string](b, fmt.Sprintf(`(async () => {
		const all = {};
		const scrub = document.getElementById('scrub');
		for (const e of (await (await fetch('replay', {headers: {Authorization: 'Bearer ' + localStorage.secret}})).json()).events) {
			scrub.value = e.t;
			scrub.dispatchEvent(new Event('input'));
			await %s;
			all[%s] = %s;
		}
		return all;
	})()`, frame, clock, figures))
	same := 0
	last := fmt.Sprintf("slot %d of %d", replayedSlots-1, replayedSlots) // after it transit goes on
	for at, text := range shown {
		if at != last && drawn[at] != "" {
			same++
			if text != drawn[at] {
				t.Errorf("at %q\nthe replay shows %s\nlive          %s", at, drawn[at], text)
			}
		}
	}
	if len(drawn) != replayedSlots || same != replayedSlots-1 {
		t.Errorf("%d states drawn of %d, %d of them seen live in %q", len(drawn), replayedSlots, same, slices.Sorted(maps.Keys(shown)))
	}

	at := func(want string) {
		t.Helper()
		b.wait(fmt.Sprintf("%s === %q", clock, want))
	}
	at(last)
	b.checkOutdoors("replay")
	key := func(name string) {
		t.Helper()
		b.key(name, "", nil)
	}
	eval[any](b, "document.activeElement.blur(), null")
	key("Home")
	first := fmt.Sprintf("slot 0 of %d", replayedSlots)
	at(first)
	if n, want := eval[int](b, "document.querySelectorAll('#answers li').length"), min(len(r.Events[0].Answers), maxAnswers); n != want {
		t.Errorf("%d answers at the first slot, want %d", n, want)
	}
	if from := eval[string](b, "document.getElementById('charts').dataset.from"); from != "0,0" {
		t.Errorf("at the first slot the charts begin at %s", from)
	}
	key("ArrowRight")
	at(fmt.Sprintf("slot 1 of %d", replayedSlots))
	key("ArrowLeft")
	at(first)
	key("End")
	at(last)
	if text := eval[string](b, "document.getElementById('answers').innerText"); strings.Count(text, "accepted from slot") < 5 ||
		!strings.Contains(text, "refused: ") {
		t.Errorf("answers %s", text)
	}
	eval[any](b, "document.getElementById('scrub').focus(), null") // a native control
	key("Home")
	at(first)
	eval[any](b, "document.getElementById('speed').value = 100, document.getElementById('play').focus(), null")
	b.key(" ", " ", nil)
	at(last)
	b.wait("document.getElementById('play').textContent === 'Play'") // it ends by itself
	b.waitText(fmt.Sprintf("The record ends with slot %d, done. What followed, as ways home, is not in it.", replayedSlots-1))
	if eval[bool](b, "!document.getElementById('commands').hidden || document.getElementById('replay').hidden") {
		t.Error("a page of commands, or no scrubber")
	}
	const requests = "performance.getEntriesByType('resource').filter(e => /alive|command|events|preview|leave/.test(e.name)).length"
	if got := eval[int](b, requests); got != 0 {
		t.Errorf("the page asked for %d live things", got)
	}
	if got := c.beats(); len(got) > 0 || len(c.commands()) > 0 {
		t.Errorf("sent %q, %q", got, c.commands())
	}
}

// clock is what a page shows of its slot.
const clock = "document.getElementById('clock').textContent.split(',')[0]"

// show has a page receive what was received in flight, and returns its figures by its clock's text.
func (x *flown) show(t *testing.T) map[string]string {
	t.Helper()
	c := startConsole(t, live, func(c *console) { c.Fleet = "test" })
	b, shown := c.open(t, "watch", 1280, 800), map[string]string{}
	for _, m := range x.messages {
		m.Received = time.Now()
		if err := c.Handle(m); err != nil {
			t.Error(err)
		}
		s, err := telemetry.DecodeStatus(m.Payload)
		at := fmt.Sprintf("slot %d of %d", s.Slot, replayedSlots)
		if err == nil && s.Slot >= 0 && strings.HasSuffix(m.Topic, "/status") && shown[at] == "" {
			b.wait(fmt.Sprintf("%s === %q", clock, at))
			shown[at] = eval[string](b, figures)
		}
	}
	return shown
}
