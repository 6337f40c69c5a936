//go:build real

package serve

import (
	"fmt"
	"testing"
	"time"
)

// The list in a browser leads to a fleet's page and back, and shows which one is lost.
func TestPageFleets(t *testing.T) {
	needBrowser(t)
	c, _ := startFleets(t, startConsole)
	live(c)
	for _, f := range c.Fleets {
		f.Clock = time.Now
	}
	publishTo(t, c, 0, exampleStatus(17))
	b := newTab(t, 390, 844)
	b.navigate(c.links.link("command as crew-1"))
	b.wait("document.querySelectorAll('#fleets li').length === 2 && document.querySelector('#fleets').innerText.includes('flying')")
	b.wait("document.querySelector('#fleets li').className.includes('alarm') && " +
		"document.querySelector('#fleets').innerText.includes('LINK LOST')")
	b.checkOutdoors("LINK LOST")
	eval[any](b, `(() => { // an answer that is cut off
		const real = window.fetch;
		window.fetch = async () => { window.fetch = real; window.cut = true; return new Response(
			new ReadableStream({start(c) { c.error(new Error('cut off')); }})); };
	})()`)
	b.wait("window.cut")
	slot := 17
	b.until("statuses again", func() bool { // one alone would be old before a slow page asks
		slot++
		publishTo(t, c, 0, exampleStatus(slot))
		return eval[bool](b, "!document.querySelector('#fleets li').className.includes('alarm') && "+
			"!document.getElementById('fleets').innerText.includes('slot 17 ')")
	})
	eval[any](b, "document.querySelector('#fleets a').click(), null")
	b.wait("document.body.dataset.role === 'command' && document.getElementById('fleet').textContent === 'f1'")
	b.wait(fmt.Sprintf("document.getElementById('clock').textContent.startsWith('slot %d ')", slot))
	eval[any](b, "document.getElementById('back').click(), null")
	b.wait("location.pathname === '/' && document.querySelectorAll('#fleets li').length === 2")
	c.http.Close()
	b.wait("document.getElementById('problem').innerText.includes('LINK LOST')")
}
