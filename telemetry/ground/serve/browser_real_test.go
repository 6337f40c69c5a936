//go:build real

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"prefdt/firmware/mission"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// The page in a real browser: Debian's Chromium, told what to do over its debugging
// protocol. Times are those of the data, or measured in the page; no test is faster or slower
// than the machine.

// browserTimeout bounds a wait for the browser; a loaded machine takes long to start one.
const browserTimeout = 2 * time.Minute

var (
	startBrowser  sync.Once
	browserCtx    context.Context
	cancelBrowser = func() {}
	errBrowser    error
)

func TestMain(m *testing.M) {
	flag.Parse()
	if at := flag.Lookup("test.parallel"); at.Value.String() == at.DefValue {
		flag.Set("test.parallel", "4") // pages wait for most of their time
	}
	code := m.Run()
	cancelBrowser()
	os.Exit(code)
}

// evilHost is a name that the browser resolves to loopback, as a hostile name server would.
const evilHost = "evil.test"

// needBrowser has a test run beside the others that look at pages: each has a console and a
// browser's tab of its own.
func needBrowser(t *testing.T) {
	t.Helper()
	t.Parallel()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium is installed; .ci/run installs Debian's")
	}
	startBrowser.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.WSURLReadTimeout(browserTimeout), chromedp.Flag("host-resolver-rules", "MAP "+evilHost+" 127.0.0.1"))
		allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(allocator)
		browserCtx, cancelBrowser = ctx, func() { end(); cancel() }
		errBrowser = chromedp.Do(browserCtx)
	})
	if errBrowser != nil {
		t.Fatalf("start %s: %v", path, errBrowser)
	}
}

// tab is a page in a browser of its own: its cookies are not those of another tab.
type tab struct {
	t          *testing.T
	ctx        context.Context
	violations int  // of the policy, that are expected
	touches    bool // a finger in place of a mouse
}

func newTab(t *testing.T, width, height int) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browserCtx, chromedp.WithNewBrowserContext())
	if err := chromedp.Do(ctx); err != nil { // opens it: it lives as long as this context
		t.Fatal(err)
	}
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		if got := eval[int](b, "window.violations_"); got != b.violations {
			t.Errorf("%d violations of the policy, want %d: %s", got, b.violations, eval[string](b, "window.violated_"))
		}
		if text := eval[string](b, "window.errors_"); text != "" {
			t.Errorf("errors of the page: %s", text)
		}
		cancel()
	})
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1,
		"mobile": width < 500}, nil)
	b.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `
		window.violations_ = 0; window.violated_ = ''; window.errors_ = ''; window.pressed_ = null;
		addEventListener('pointerdown', e => { pressed_ = e.target; }, true);
		addEventListener('securitypolicyviolation', e => { violations_++; violated_ += e.violatedDirective + ' ' + e.blockedURI + ' '; });
		addEventListener('error', e => { errors_ += (e.message || 'a file was not loaded') + '; '; });
		addEventListener('unhandledrejection', e => { errors_ += e.reason + '; '; });`}, nil)
	return b
}

// open opens the console in a new tab, with a fresh link.
func (c *console) open(t *testing.T, role string, width, height int) *tab {
	t.Helper()
	b := newTab(t, width, height)
	b.navigate(c.links.link(role))
	b.wait("document.body.dataset.role")
	return b
}

// call sends one command of the debugging protocol.
func (b *tab) call(method string, params, result any) {
	b.t.Helper()
	if err := b.tryCall(method, params, result); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

func (b *tab) tryCall(method string, params, result any) error {
	var raw json.RawMessage
	ctx, cancel := context.WithTimeout(b.ctx, browserTimeout)
	defer cancel()
	err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		return t.Call(ctx, method, params, &raw)
	}))
	if err == nil && result != nil {
		err = json.Unmarshal(raw, result)
	}
	return err
}

func (b *tab) navigate(url string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatalf("open %s: %v", url, err)
	}
}

// eval evaluates an expression of the page, a promise's value included.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := tryEval[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func tryEval[T any](b *tab, expression string) (value T, err error) {
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	err = b.tryCall("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	switch {
	case err != nil:
		return value, err
	case out.ExceptionDetails != nil:
		return value, errors.New(out.ExceptionDetails.Exception.Description)
	case out.Result.Value == nil:
		return value, nil
	}
	return value, json.Unmarshal(out.Result.Value, &value)
}

// wait waits until an expression holds. One that fails does not hold yet: between two
// pages there is no document to evaluate it in. The page itself looks for it: to ask it over the protocol takes as
// much of a processor as a page does.
func (b *tab) wait(expression string) {
	b.t.Helper()
	watched := fmt.Sprintf(`new Promise(answer => {
		const looked = Date.now(), look = () => {
			let holds = false;
			try { holds = !!(%s); } catch { }
			if (holds || Date.now() - looked > 2000) { clearInterval(again); answer(holds); }
		}, again = setInterval(look, 50);
		look();
	})`, expression)
	for until := time.Now().Add(browserTimeout); ; {
		holds, err := tryEval[bool](b, watched)
		if err == nil && holds {
			return
		}
		if time.Now().After(until) {
			b.t.Fatalf("never: %s (%v)\n%s", expression, err, eval[string](b, "document.body.innerText"))
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (b *tab) waitText(text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// box is an element's middle, after it was scrolled to.
func (b *tab) box(selector string) (x, y float64) {
	b.t.Helper()
	r := eval[[]float64](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: 'center',`+
		` behavior: 'instant'}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`, selector))
	return r[0], r[1]
}

func (b *tab) mouse(kind string, x, y float64) {
	b.t.Helper()
	if b.touches {
		touch := map[string]string{"mousePressed": "touchStart", "mouseMoved": "touchMove", "mouseReleased": "touchEnd"}[kind]
		points := []map[string]any{{"x": x, "y": y}}
		if kind == "mouseReleased" {
			points = []map[string]any{}
		}
		b.call("Input.dispatchTouchEvent", map[string]any{"type": touch, "touchPoints": points}, nil)
		return
	}
	params := map[string]any{"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
	if kind == "mouseReleased" {
		params["buttons"] = 0
	}
	b.call("Input.dispatchMouseEvent", params, nil)
}

// pressOn begins to press an element, and returns where its middle is. The page may be laid
// out anew, by a banner for instance, between where the element is found and the press:
// then it is pressed again where it is now, as a person would.
func (b *tab) pressOn(selector string) (x, y float64) {
	b.t.Helper()
	for until := time.Now().Add(browserTimeout); ; {
		x, y = b.box(selector)
		b.mouse("mousePressed", x, y)
		if eval[bool](b, fmt.Sprintf("!!pressed_?.closest(%q)", selector)) {
			return x, y
		}
		b.mouse("mouseReleased", x, y)
		if time.Now().After(until) {
			b.t.Fatalf("%s was not hit\n%s", selector, eval[string](b, "document.body.innerText"))
		}
	}
}

// press holds a button until done.
func (b *tab) press(selector string, done func() bool) {
	b.t.Helper()
	x, y := b.pressOn(selector)
	b.until(selector, done)
	b.mouse("mouseReleased", x, y)
}

func (b *tab) until(what string, done func() bool) {
	b.t.Helper()
	for until := time.Now().Add(browserTimeout); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			b.t.Fatalf("nothing came of %s\n%s", what, eval[string](b, "document.body.innerText"))
		}
	}
}

// key presses a key and lets it go once done.
func (b *tab) key(key, text string, done func() bool) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowDown": 40, "ArrowLeft": 37, "Home": 36, "End": 35}
	params := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key], "text": text}
	b.call("Input.dispatchKeyEvent", params, nil)
	if done != nil {
		b.until("key "+key, done)
	}
	params["type"] = "keyUp"
	delete(params, "text")
	b.call("Input.dispatchKeyEvent", params, nil)
}

// leader publishes statuses until it dies.
func (c *console) leader(every time.Duration) (die func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for slot := 1; ; slot++ {
			c.mutex.Lock()
			s := exampleStatus(slot)
			if c.change != nil {
				c.change(&s)
			}
			c.mutex.Unlock()
			publish(c, topics.Status(), false, s)
			select {
			case <-quit:
				return
			case <-time.After(every):
			}
		}
	}()
	die = sync.OnceFunc(func() { close(quit); <-ended })
	c.t.Cleanup(die)
	return die
}

// A leader that dies while every socket lives is LINK LOST at 3 s of the data's age: at the
// first drawing from then on, and not before. What brokers and bridges repeat makes it no
// younger. What may be out of date is hatched.
func TestPageStale(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	die := c.leader(100 * time.Millisecond)
	b := c.open(t, "watch", 390, 844)
	b.wait("document.body.dataset.link === 'live'")
	eval[any](b, `(() => {
		window.drawn = [];
		new MutationObserver(() => drawn.push([
			Number(document.body.dataset.age), document.body.dataset.link, document.getElementById('banners').textContent,
		])).observe(document.body, {attributes: true, attributeFilter: ['data-age']});
	})()`)
	b.wait("drawn.length > 3")
	die()
	last := c.state.latest()
	b.wait("Number(document.body.dataset.age) > 1500")
	eval[any](b, "drawn = [], null")
	publish(c, topics.Status(), true, *last)
	publish(c, topics.Status(), false, *last)
	if err := c.Handle(telemetry.Message{Topic: topics.Online(), Payload: telemetry.EncodeOnline(true), Retained: true,
		Received: time.Now()}); err != nil {
		t.Fatal(err)
	}
	b.wait("document.body.dataset.link === 'lost'")
	before := -1.0
	for _, x := range eval[[][3]any](b, "drawn") {
		ageMS, link, text := x[0].(float64), x[1].(string), x[2].(string)
		if ageMS < 1500 {
			t.Errorf("%v ms old after a repetition", ageMS)
		}
		if link == "lost" {
			if ageMS < 3000 || before >= 3000 {
				t.Errorf("LINK LOST at %v ms, drawn before at %v ms", ageMS, before)
			}
			age := fmt.Sprintf("%.1f", ageMS/1000)
			if ageMS >= 9950 {
				age = fmt.Sprintf("%.0f", ageMS/1000)
			}
			if !strings.HasPrefix(text, "LINK LOST: last status "+age+" s ago") {
				t.Errorf("at %v ms the page shows %q", ageMS, text)
			}
			break
		}
		before = ageMS
	}
	if !eval[bool](b, "[...document.querySelectorAll('.data')].every(x => x.classList.contains('stale'))") {
		t.Error("not all that may be out of date is hatched")
	}
	for _, what := range []string{"h1", "#clock", "#map-box", "#charts", "#figures", "#fleet-box"} {
		background := fmt.Sprintf("getComputedStyle(document.querySelector(%q)).backgroundImage", what)
		if !strings.HasPrefix(eval[string](b, background), "repeating-linear-gradient") {
			t.Errorf("%s is not hatched", what)
		}
	}
	if !slices.ContainsFunc(c.sessions(), func(s *session) bool { return c.access.watched(s, "f1") }) {
		t.Error("the page's stream ended; it should have been told of the leader's silence by nothing but the age")
	}
	c.leader(100 * time.Millisecond) // back, with an earlier slot: another mission
	b.wait("document.body.dataset.link === 'live' && !document.querySelector('.data.stale')")
}

// What the broker had kept has no age.
func TestPageRetained(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	publish(c, topics.Status(), true, exampleStatus(3))
	b := c.open(t, "watch", 390, 844)
	b.waitText("age unknown")
	if got := eval[string](b, "document.body.dataset.link"); got == "live" {
		t.Errorf("a kept status is shown as %s", got)
	}
}

// relay stands between browser and server, and can hold up what it carries, or drop it.
type relay struct {
	listener net.Listener
	mutex    sync.Mutex
	held     bool
	conns    []net.Conn
	stuck    int // so many of conns carry nothing any more
	refuses  bool
	refused  int // connections
}

func startRelay(t *testing.T, target func() string) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener}
	t.Cleanup(func() { listener.Close(); r.drop() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target())
			if err != nil {
				near.Close()
				continue
			}
			r.mutex.Lock()
			if r.refuses {
				r.refused++
				near.Close()
				far.Close()
			} else {
				r.conns = append(r.conns, near, far)
			}
			n := len(r.conns)
			r.mutex.Unlock()
			go r.carry(far, near, n)
			go r.carry(near, far, n)
		}
	}()
	return r
}

func (r *relay) carry(to, from net.Conn, number int) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		for r.isHeld(number) {
			time.Sleep(10 * time.Millisecond)
		}
		if _, e := to.Write(buffer[:n]); err != nil || e != nil {
			return
		}
	}
}

func (r *relay) isHeld(n int) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.held || n <= r.stuck
}

// lose has the present connections carry nothing any more, and stay open, as when a phone
// changes its network.
func (r *relay) lose() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.stuck = len(r.conns)
}

func (r *relay) hold(held bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.held = held
}

// refuse drops the present connections, and each new one.
func (r *relay) refuse(refuses bool) (refused int) {
	if refuses {
		r.drop()
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.refuses = refuses
	return r.refused
}

func (r *relay) drop() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns, r.stuck = nil, 0
}

// Data that were held up on their way are as old as they are: a burst of them after a silence
// does not look alive. A connection that is dropped is made again, and all is told again.
func TestPageHeldUp(t *testing.T) {
	needBrowser(t)
	var c *console
	r := startRelay(t, func() string { return c.listener.Addr().String() })
	c = startConsole(t, live, func(c *console) { c.Hosts = []string{r.listener.Addr().String()} })
	die := c.leader(200 * time.Millisecond)
	b := newTab(t, 390, 844)
	_, token, _ := strings.Cut(c.links.link("watch"), "#")
	b.navigate("http://" + r.listener.Addr().String() + "/#" + token)
	b.wait("document.body.dataset.link === 'live'")
	if at := eval[string](b, "location.href"); strings.Contains(at, token) {
		t.Errorf("the address keeps the token: %s", at)
	}
	slot := c.state.latest().Slot
	r.hold(true)
	for c.state.latest().Slot < slot+5 { // on their way
		time.Sleep(20 * time.Millisecond)
	}
	die()
	b.wait("document.body.dataset.link === 'lost'")
	b.until("waiting", func() bool { return c.state.ageMS(time.Now()) > 3200 }) // then what comes is lost too
	eval[any](b, `(() => { window.looked = []; new MutationObserver(() => `+
		`looked.push(document.body.dataset.link)).observe(document.body, {attributes: true, attributeFilter: ['data-link']}); })()`)
	last := c.state.latest().Slot
	r.hold(false)
	b.wait(fmt.Sprintf("document.getElementById('clock').textContent.startsWith('slot %d ')", last)) // the burst
	if looked := eval[[]string](b, "looked"); len(looked) == 0 || slices.Contains(looked, "live") {
		t.Errorf("after the burst: %q", looked)
	}
	c.leader(200 * time.Millisecond)
	b.wait("document.body.dataset.link === 'live'")
	r.drop()
	b.wait("document.body.dataset.link === 'live' && Number(document.body.dataset.age) < 1000 && document.querySelectorAll('#trails " +
		"path').length === 2")
}

// A connection that neither ends nor carries anything is left for another one. A page that
// becomes visible connects anew at once; one that is refused goes on, and so does one whose answer
// was cut off. A device that slept shows the age of what it has, and asks anew.
func TestPageReconnects(t *testing.T) {
	needBrowser(t)
	var c *console
	r := startRelay(t, func() string { return c.listener.Addr().String() })
	c = startConsole(t, live, func(c *console) { c.Hosts = []string{r.listener.Addr().String()} })
	c.leader(200 * time.Millisecond)
	b := newTab(t, 390, 844)
	_, token, _ := strings.Cut(c.links.link("watch"), "#")
	b.navigate("http://" + r.listener.Addr().String() + "/#" + token)
	b.wait("document.body.dataset.link === 'live'")
	eval[any](b, `(() => { window.links = []; new MutationObserver(() => links.push(document.body.dataset.link)).observe(document.body,`+
		` {attributes: true, attributeFilter: ['data-link']}); })()`)
	r.lose()
	b.wait("links.includes('lost') && links.at(-1) === 'live'") // lost for two seconds
	eval[any](b, `(() => {
		window.opened = 0;
		const Source = EventSource;
		window.EventSource = function(url) { opened++; return new Source(url); };
	})()`)
	again := func(cause string) {
		t.Helper()
		eval[any](b, "opened = 0, "+cause+", null")
		b.wait("opened > 0 && document.body.dataset.link === 'live'")
	}
	const shown = "document.dispatchEvent(new Event('visibilitychange'))"
	again(shown)
	again(`(() => {
		const real = window.fetch;
		window.fetch = async () => { window.fetch = real; return new Response(
			new ReadableStream({start(c) { c.error(new Error('cut off')); }})); };
	})(), ` + shown)
	again(`(() => {
		const real = window.fetch;
		window.fetch = async () => { window.fetch = real; return new Response('{"role": "wat', {status: 200}); };
	})(), ` + shown)
	refused := r.refuse(true)
	b.until("refusals", func() bool { return r.refuse(true) >= refused+2 })
	b.wait("document.body.dataset.link === 'lost'")
	r.refuse(false)
	again(shown)
	again("(() => { const now = Date.now; Date.now = () => now() + 60000; })()") // the page's clock stood still for a minute
}

// Without a link the page says what to do.
func TestPageWithoutLink(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	b := newTab(t, 390, 844)
	b.navigate(c.URL())
	b.waitText("open the link that the server's terminal shows")
	link := c.links.link("watch")
	b.navigate(link) // in the same tab
	b.wait("document.body.dataset.role === 'watch'")
	b = newTab(t, 390, 844)
	b.navigate(link)
	b.waitText("this link was used, is older than an hour, or is of an earlier start")
}

// Over TLS the browser takes the cookie that only this host may set.
func TestPageTLS(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live, func(c *console) { c.Certificate = newCertificate(t, "field.example") })
	c.leader(200 * time.Millisecond)
	b := newTab(t, 390, 844)
	b.call("Security.setIgnoreCertificateErrors", map[string]any{"ignore": true}, nil) // it signs itself
	b.navigate(strings.Replace(c.links.link("command as crew-1"), "field.example", "127.0.0.1", 1))
	b.wait("document.body.dataset.link === 'live'")
	b.press("#act-hold .hold", func() bool { return len(c.commands()) > 0 })
	var out struct {
		Cookies []struct {
			Name, Path, SameSite string
			Secure, HTTPOnly     bool
		}
	}
	b.call("Network.getCookies", map[string]any{}, &out)
	if len(out.Cookies) != 1 || !strings.HasPrefix(out.Cookies[0].Name, "__Host-ground-") || !out.Cookies[0].Secure ||
		!out.Cookies[0].HTTPOnly || out.Cookies[0].SameSite != "Strict" {
		t.Errorf("cookies %+v", out.Cookies)
	}
}

// Each alarm is a banner while its cause lasts, and needs no hand to go.
func TestPageAlarms(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	set := func(change func(s *telemetry.Status)) {
		t.Helper()
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.change = func(s *telemetry.Status) {
			s.CrewAgeS = new(0.5) // no alarm of its own, however long this takes
			if change != nil {
				change(s)
			}
		}
	}
	set(nil)
	die := c.leader(200 * time.Millisecond)
	b := c.open(t, "command as crew-1", 390, 844)
	b.wait("document.body.dataset.link === 'live' && document.querySelectorAll('#banners p').length === 0")
	for _, x := range []struct {
		want   string
		change func(s *telemetry.Status)
	}{
		{"SATURATED: the packs do not last: ask for more", func(s *telemetry.Status) {
			s.Dangers = []telemetry.Danger{{Gravity: 5, Text: "SATURATED: the packs do not last", Do: "ask for more"}}
		}},
		{"aircraft 2: battery 5 %", func(s *telemetry.Status) {
			s.Dangers = []telemetry.Danger{{Gravity: 9, Aircraft: 2, Text: "battery 5 %"}}
		}},
	} {
		b.wait("document.querySelectorAll('#banners p').length === 0")
		set(x.change)
		b.wait(fmt.Sprintf("document.getElementById('banners').innerText.includes(%q)", x.want))
		set(nil)
	}
	b.wait("document.querySelectorAll('#banners p').length === 0")
	set(func(s *telemetry.Status) {
		s.LastCommand = &telemetry.LastCommand{ID: "b-9", Key: "hut", Slot: 31, What: "budget 42000 J, target"}
	})
	b.waitText("hut commanded: budget 42000 J, target, from slot 31")
	// not from here, though perhaps with the same key
	for key, who := range map[string]string{"": "an unsigned station", "crew-1": "crew-1"} {
		set(func(s *telemetry.Status) {
			s.LastCommand = &telemetry.LastCommand{ID: "h-" + key, Key: key, Slot: 32, What: "mission hold"}
		})
		b.waitText(who + " commanded: mission hold, from slot 32")
	}
	set(func(s *telemetry.Status) { s.CrewAgeS = new(0.5) })
	b.waitText("The leader received the last heartbeat 0.")
	die() // the age that it told grows
	b.wait("parseFloat(document.getElementById('beats').textContent.match(/heartbeat ([0-9.]+) s ago/)[1]) > 2")
}

// Of twelve dangers of eight aircraft as many are shown as fit, the gravest always whole, and how many more there are; a tap shows all.
func TestPageDangers(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	text := strings.Repeat("a long reason of its autopilot ", 12)
	c.change = func(s *telemetry.Status) {
		s.CrewAgeS = new(0.5)
		s.Dangers = []telemetry.Danger{{Gravity: 9, Aircraft: 8, Text: text + "its end", Do: "return"}}
		for k := range 11 {
			s.Dangers = append(s.Dangers, telemetry.Danger{Gravity: 6, Aircraft: k%8 + 1, Text: fmt.Sprintf("left OFFBOARD, reason %d", k)})
		}
	}
	c.leader(200 * time.Millisecond)
	for _, size := range [][2]int{{390, 844}, {1440, 900}} {
		b := c.open(t, "command as crew-1", size[0], size[1])
		b.wait("document.querySelectorAll('#banners p').length === 12")
		state := eval[string](b, `(() => {
			const box = document.getElementById('banners').getBoundingClientRect(), all = [...document.querySelectorAll('#banners p')];
			const whole = all.filter(p => p.getClientRects().length && p.getBoundingClientRect().bottom <= box.bottom + 1);
			return [whole[0] === all[0] && all[0].textContent.endsWith('its end: return'),
				all.filter(p => !p.hidden).length === whole.length,
				document.getElementById('more').textContent === '+' + (12 - whole.length) + ' more', box.height < innerHeight / 2].join();
		})()`)
		if state != "true,true,true,true" {
			t.Errorf("%v: the first is whole, all that are shown are, the rest is counted, there is room for the page: %s", size, state)
		}
		eval[any](b, "document.getElementById('more').click()")
		b.wait("[...document.querySelectorAll('#banners p')].every(p => !p.hidden) && " +
			"document.getElementById('more').textContent === 'fewer'")
	}
}

// A press counts by the clock on a page that is busy: one of 2.2 s acts, though the page draws once in 0.7 s, and a tap does not.
func TestPageBusy(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.leader(200 * time.Millisecond)
	b := c.open(t, "command as crew-1", 390, 844)
	b.waitText("wait where they are")
	eval[any](b, `(() => { const busy = () => { for (const end = performance.now() + 700; performance.now() < end;);
		requestAnimationFrame(busy); };
		requestAnimationFrame(busy); })()`)
	for range 3 {
		x, y := b.pressOn("#act-stop .hold")
		b.mouse("mouseReleased", x, y)
	}
	if n := len(c.commands()); n > 0 {
		t.Fatalf("%d taps acted", n)
	}
	x, y := b.pressOn("#act-stop .hold")
	time.Sleep(2200 * time.Millisecond)
	b.mouse("mouseReleased", x, y)
	b.until("the press", func() bool { return len(c.commands()) == 1 })
}

// An alarm sounds and vibrates, not more often than every 5 s, also when another page covers
// this one, and not when it is mute. Before a touch or a key no browser sounds, and the page says so.
func TestPageSound(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	var alarms []func(s *telemetry.Status)
	c.change = func(s *telemetry.Status) {
		for _, change := range alarms {
			change(s)
		}
	}
	add := func(change func(s *telemetry.Status)) {
		t.Helper()
		c.mutex.Lock()
		defer c.mutex.Unlock()
		alarms = append(alarms, change)
	}
	c.leader(200 * time.Millisecond)
	b := c.open(t, "watch", 390, 844)
	b.wait("document.body.dataset.link === 'live' && document.querySelectorAll('#banners p').length === 0")
	eval[any](b, `(() => {
		window.shaken = [], window.tones = [];
		Object.defineProperty(navigator, 'vibrate', {value: () => shaken.push(performance.now())});
		const start = OscillatorNode.prototype.start;
		OscillatorNode.prototype.start = function(...x) { tones.push([this.frequency.value, this.context.state]);
			return start.apply(this, x); };
	})()`)
	heard := func(want string) {
		t.Helper()
		if got := eval[string](b, "JSON.stringify(tones)"); got != want {
			t.Errorf("tones %s, want %s", got, want)
		}
	}
	b.waitText("Touch for sound")
	danger := func(gravity int, text string) func(*telemetry.Status) {
		return func(s *telemetry.Status) {
			s.Dangers = append(s.Dangers, telemetry.Danger{Gravity: gravity, Text: text})
		}
	}
	add(danger(5, "SATURATED"))
	b.wait("shaken.length === 1")
	heard("[]")
	b.key("Tab", "", nil)
	b.waitText("Sound on")
	add(danger(8, "LINK LOST"))
	b.wait("shaken.length === 2")                                           // not at once
	if shaken := eval[[]float64](b, "shaken"); shaken[1]-shaken[0] < 4990 { // it is read a moment after the page's own time
		t.Errorf("it vibrates again after %.0f ms", shaken[1]-shaken[0])
	}
	heard(`[[880,"running"]]`)
	eval[any](b, "Object.defineProperty(document, 'hidden', {value: true, configurable: true}), null")
	add(danger(6, "left OFFBOARD"))
	b.wait("tones.length === 2")
	eval[any](b, "delete document.hidden, null")
	b.focus("#mute")
	b.key("Enter", "\r", nil)
	b.waitText("Sound off")
	add(danger(7, "battery 12 %"))
	b.wait("document.getElementById('banners').textContent.includes('battery 12 %')")
	eval[any](b, "new Promise(done => setTimeout(done, 5500))") // longer than the rate's limit
	if n := eval[int](b, "shaken.length + tones.length"); n != 5 {
		t.Errorf("mute, and %d signals", n)
	}
	b.key("Enter", "\r", nil)
	b.waitText("Sound on")
}

// The screen stays on during a mission and while anything is in the air, and no longer.
func TestPageAwake(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.leader(200 * time.Millisecond)
	b := c.open(t, "watch", 390, 844)
	eval[any](b, `(() => {
		window.locks = [];
		const request = navigator.wakeLock.request.bind(navigator.wakeLock);
		navigator.wakeLock.request = async kind => { // slowly: it may be asked for again meanwhile
			await new Promise(done => setTimeout(done, 300));
			const lock = await request(kind);
			locks.push(lock);
			return lock;
		};
	})()`)
	for _, x := range []struct {
		state  string
		landed bool
		awake  bool
	}{
		{telemetry.StateIdle, true, false}, {telemetry.StateClimbing, true, true}, {telemetry.StateFlying, false, true},
		{telemetry.StateStopped, false, true}, {telemetry.StateDone, true, false},
		{telemetry.StateStopped, false, true}, // left in the air, when the page comes
	} {
		c.mutex.Lock()
		c.change = func(s *telemetry.Status) {
			s.State = x.state
			for i := range s.Aircraft {
				s.Aircraft[i].Landed = &x.landed
			}
		}
		c.mutex.Unlock()
		b.wait(fmt.Sprintf("document.getElementById('state').textContent === %q && "+
			"document.getElementById('aircraft').innerText.includes('landed') === %v", x.state, x.landed))
		// it is asked then, and every 5 s
		eval[any](b, "document.dispatchEvent(new Event('visibilitychange')), document.dispatchEvent(new Event('visibilitychange')), null")
		b.wait(fmt.Sprintf("locks.some(x => !x.released && x.type === 'screen') === %v", x.awake))
	}
}

// What the leader would refuse in a state is said to be refused, and nothing else is: by the
// leader's own table. Time is left while there are slots to fly.
func TestPageStates(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.leader(200 * time.Millisecond)
	b := c.open(t, "command as crew-1", 390, 844)
	for _, state := range []string{"idle", "climbing", "flying", "holding", "returning", "done", "stopped"} {
		var m mission.Mission
		m.Restore(mission.State{Phase: state, HeldBy: mission.HeldByCrewLost})
		want, refuses := map[string]bool{"budget": !m.Ending(), "preference": !m.Ending(), "next": m.Accepts("new")}, telemetry.Refuses{}
		if m.Ending() {
			refuses.Budget = "not while " + state
		}
		for _, action := range []string{"start", "hold", "resume", "return", "stop", "launch", "clear"} {
			want["act-"+action] = m.Accepts(action)
		}
		for _, action := range []string{"start", "hold", "resume", "return", "stop", "launch", "clear", "new"} {
			if !m.Accepts(action) {
				*refuses.Of(action) = "not while " + state
			}
		}
		c.mutex.Lock()
		c.change = func(s *telemetry.Status) {
			s.State, s.LastCommand = state, &telemetry.LastCommand{ID: "b-9", Slot: max(s.Slot-1, 0), What: "hold"}
			s.Refuses, s.Dangers, s.CoveredUntilSlot = &refuses, nil, nil
		}
		c.mutex.Unlock()
		b.wait(fmt.Sprintf("document.getElementById('state').textContent === %q", state))
		now := eval[[2]string](b, "[document.getElementById('banners').textContent, document.getElementById('now').textContent]")
		if (now[0] == "") != strings.HasPrefix(now[1], state+", slot ") {
			t.Errorf("%s: the band has %q, and %q", state, now[0], now[1])
		}
		if !eval[bool](b, "document.getElementById('act-keep').classList.contains('unfit')") {
			t.Errorf("%s: keep all up can be pressed, and no budget lets aircraft land", state)
		}
		for id, accepted := range want {
			refused := eval[bool](b, fmt.Sprintf("document.getElementById(%q).textContent.includes('Refused: not while %s')", id, state))
			folded := eval[bool](b, fmt.Sprintf("!document.querySelector('#%s .hold').getClientRects().length", id))
			inSight := slices.Contains([]string{"act-hold", "act-return", "act-stop"}, id)
			if refused == accepted || folded != (!accepted && !inSight) {
				t.Errorf("%s while %s: refused %v, folded %v, the leader accepts %v", id, state, refused, folded, accepted)
			}
		}
		if left, want := eval[bool](b, "document.getElementById('clock').textContent.includes(' left')"), m.InFlight() &&
			!m.Ending(); left != want {
			t.Errorf("%s: time left %v, want %v", state, left, want)
		} else if age := eval[bool](b, "document.getElementById('values').innerText.includes('slots ago')"); age != want {
			t.Errorf("%s: a command's age %v, want %v", state, age, want)
		}
	}
	c.mutex.Lock()
	c.change = func(s *telemetry.Status) { s.State, s.Dangers, s.LastCommand = "stopped", nil, nil }
	c.mutex.Unlock()
	b.wait("document.getElementById('now').textContent.startsWith('stopped, slot ')") // nothing else stands there
}

// Everything that is shown, by the numbers of one status and of the users' messages.
func TestPageShows(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live, func(c *console) {
		c.StaleAfter = time.Hour // the page is opened after the statuses
		c.Picture = &Picture{Image: []byte("<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>"), Type: "image/svg+xml",
			AtM: [4]float64{-50, -60, 1000, 1100}}
	})
	for slot := 17; slot <= 20; slot++ {
		s := exampleStatus(slot)
		s.Aircraft[0].PositionM[0] += float64(slot)
		s.TransitJ, s.MissedSlots, s.PredictedEndJ = 900, 2, new(45000.0) // the budget
		s.LastCommand = &telemetry.LastCommand{ID: "b-9", Key: "hut", Slot: 15, What: "budget 45000 J, target"}
		if slot > 17 {
			task := &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: .9}
			for i, id := range []string{"served", "local", "waiting", "idle"} {
				r := telemetry.Report{Slot: slot, PositionM: [2]float64{100 * float64(i+1), 800}, CPUHz: 1e9, Task: task}
				if id == "idle" {
					r.Task = nil
				}
				publish(c, topics.Report(id), false, r)
			}
			publish(c, topics.Decision("served"), false, telemetry.Decision{Slot: slot, Aircraft: 2, Offload: .5, CPUHz: 1e9})
			publish(c, topics.Decision("local"), false, telemetry.Decision{Slot: slot})
			publish(c, topics.Result("served"), false, telemetry.Result{Slot: slot, CompletionS: .25, By: telemetry.ByDecision})
		}
		publish(c, topics.Status(), false, s)
	}
	b := c.open(t, "watch", 1280, 800)
	b.waitText("slot 20 of 100, 1 min 19 s of the mission left")
	for id, want := range map[string]string{
		"served": "M100 -800h0", "local": "M200 -800h0", "waiting": "M300 -800h0", "idle": "M400 -800h0", "links": "M600 -500L100 -800",
	} {
		if got := eval[string](b, fmt.Sprintf("document.getElementById(%q).getAttribute('d')", id)); got != want {
			t.Errorf("%s: drawn as %q, want %q", id, got, want)
		}
	}
	for _, c := range [][2]string{
		{"[...document.querySelectorAll('#trails path')].map(x => x.getAttribute('d')).join(' ')",
			"M317 -500L318 -500L319 -500L320 -500 M600 -500L600 -500L600 -500L600 -500"},
		{"[...document.querySelectorAll('#planes g')].map(x => x.getAttribute('transform').split(' s')[0] + x.textContent).join(' ')",
			"translate(320 -500)1: 100 m translate(600 -500)2: 100 m"},
		{"['x', 'y', 'width', 'height'].map(x => document.getElementById('fence').getAttribute(x)).join(' ')",
			"0 -1000 1000 1000"},
		{"['href', 'x', 'y', 'width', 'height'].map(x => document.getElementById('picture').getAttribute(x)).join(' ')",
			"picture -50 -1100 1050 1160"},
	} {
		if got := eval[string](b, c[0]); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
	figures := eval[[][3]string](b, "[...document.querySelectorAll('#values div')].map(x => [x.children[0].textContent, "+
		"x.children[1].firstChild.data, x.children[1].lastChild.textContent])")
	want := [][2]string{
		{"request", "45.0 kJ target"}, {"spent in slots", "7.1 kJ (16 %)"}, {"remaining in slots", "37.9 kJ"},
		{"predicted end in slots", "45.0 kJ"}, {"floor in slots", "32.4 kJ"},
		{"delay, mean of a task", "0.250 s"}, {"users reported", "7"}, {"missed slots", "2"},
		{"last command", "budget 45000 J, target"},
	}
	if len(figures) != len(want) {
		t.Fatalf("figures %q", figures)
	}
	for i, x := range figures {
		if [2]string(x[:2]) != want[i] || strings.Contains(x[2], " old") { // all are as old as the page says above
			t.Errorf("figure %q, want %q", x, want[i])
		}
	}
	if got := figures[len(figures)-1][2]; got != "hut, from slot 15, 5 slots ago" {
		t.Errorf("last command: %q", got)
	}
	if got := eval[string](b, "document.getElementById('aircraft').innerText"); !strings.Contains(got,
		"320 m east, 500 m north, 100 m up, 8.4 m/s, battery 91 %, spent 3.5 kJ in slots, ") || !strings.Contains(got, " s old") {
		t.Errorf("aircraft %s", got)
	}
	// Predicted end, floor and budget are in the chart, by their colours, though one lies on another.
	for _, colour := range []string{"0,64,138", "122,0,0", "47,163,92"} {
		if !eval[bool](b, fmt.Sprintf(`(() => {
			const canvas = document.querySelector('#energy-chart canvas');
		const x = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
			for (let i = 0; i < x.length; i += 4) if ([x[i], x[i + 1], x[i + 2]].join() === %q && x[i + 3] === 255) return true;
			return false;
		})()`, colour)) {
			t.Errorf("no line of the colour %s", colour)
		}
	}
}

// Hold, return and stop are whole in sight, and on top, in every state, with alarms and without, on a phone and
// on a laptop, wherever the page is scrolled to.
func TestPageActsInSight(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.leader(200 * time.Millisecond)
	hidden := `['act-hold', 'act-return', 'act-stop'].filter(id => {
		const button = document.querySelector('#' + id + ' .hold'), r = button.getBoundingClientRect();
		const inside = r.width > 40 && r.height > 40 && r.left >= 0 && r.top >= 0 && r.right <= innerWidth && r.bottom <= innerHeight;
		const before = document.getElementById('before-' + id.slice(4)), cut = before.scrollHeight > before.clientHeight + 1;
		return cut || !inside || document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)?.closest('.hold') !== button;
	}).join(' ')`
	for _, size := range [][2]int{{390, 844}, {1280, 800}} {
		b := c.open(t, "command as crew-1", size[0], size[1])
		for _, state := range []string{"idle", "climbing", "flying", "holding", "returning", "done", "stopped"} {
			for _, alarms := range []int{0, 12} {
				c.mutex.Lock()
				c.change = func(s *telemetry.Status) {
					s.State, s.Saturated = state, alarms > 0
					a := s.Aircraft[0]
					for n := len(s.Aircraft) + 1; n <= alarms; n++ {
						a.Number, a.SystemID = n, n
						s.Aircraft = append(s.Aircraft, a)
					}
					for i := range s.Aircraft[:min(alarms, len(s.Aircraft))] {
						s.Aircraft[i].Reason, s.Aircraft[i].AgeS = "left OFFBOARD for POSCTL while flying", new(7.0)
					}
				}
				c.mutex.Unlock()
				b.wait(fmt.Sprintf("document.getElementById('state').textContent === %q && document.querySelectorAll('#aircraft "+
					"li').length === %d",
					state, max(2, alarms)))
				for _, where := range []string{"0", "document.body.scrollHeight / 2", "document.body.scrollHeight"} {
					eval[any](b, "scrollTo({top: "+where+", behavior: 'instant'}), null")
					if got := eval[string](b, hidden); got != "" {
						t.Errorf("%v, %s, %d alarms, scrolled to %s: not in sight: %s", size, state, alarms, where, got)
					}
				}
			}
		}
	}
}

// However many alarms come and go, and however long the lines above grow, a button stays where the finger is, on
// a phone and on a laptop, and can be pressed.
func TestPageCommandsInReach(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	alarms := func(s *telemetry.Status) {
		for n := 3; n <= 12; n++ {
			a := s.Aircraft[0]
			a.Number, a.SystemID = n, n
			s.Aircraft = append(s.Aircraft, a)
		}
		for i := range s.Aircraft {
			s.Aircraft[i].Reason, s.Aircraft[i].AgeS = "left OFFBOARD for POSCTL while flying: "+strings.Repeat("failsafe ", 10), new(7.0)
			s.Dangers = append(s.Dangers, telemetry.Danger{Gravity: 6, Aircraft: i + 1, Text: s.Aircraft[i].Reason})
		}
	}
	set := func(change func(s *telemetry.Status)) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.change = change
	}
	c.leader(200 * time.Millisecond)
	for _, width := range []int{390, 1280} {
		set(nil)
		b := c.open(t, "command as crew-1", width, 844)
		b.wait("document.body.dataset.link === 'live' && document.querySelectorAll('#aircraft li').length === 2")
		for _, button := range []string{"#act-hold .hold", "#act-stop .hold"} {
			x, y := b.box(button)
			b.mouse("mouseMoved", x, y)
			top := func() float64 {
				return eval[float64](b, fmt.Sprintf("document.querySelector(%q).getBoundingClientRect().top", button))
			}
			before := top()
			set(alarms)
			b.wait("document.getElementById('banners').textContent.includes('aircraft 12: left OFFBOARD')")
			b.wait("document.querySelectorAll('#aircraft li').length === 12")
			if moved := top() - before; moved < -1 || moved > 1 {
				t.Errorf("%d px wide: alarms move %s by %.0f px", width, button, moved)
			}
			n := len(c.commands())
			b.mouse("mousePressed", x, y) // where it was
			b.until(button, func() bool { return len(c.commands()) > n })
			b.mouse("mouseReleased", x, y)
			set(nil)
			b.wait("document.querySelectorAll('#aircraft li').length === 2")
			if moved := top() - before; moved < -1 || moved > 1 {
				t.Errorf("%d px wide: their end moves %s by %.0f px", width, button, moved)
			}
		}
	}
}

// A tap does nothing, nor does a press of a second where two are wanted: what is sent is what was
// pressed for a second, with its progress, or for two, with a mouse or with a finger.
func TestPageTap(t *testing.T) {
	for _, with := range []string{"mouse", "finger"} {
		t.Run(with, func(t *testing.T) { testTap(t, with == "finger") })
	}
}

func testTap(t *testing.T, touches bool) {
	needBrowser(t)
	c := startConsole(t, live)
	c.leader(200 * time.Millisecond)
	b := c.open(t, "command as crew-1", 390, 844)
	b.touches = touches
	b.waitText("wait where they are")
	eval[any](b, `(() => { for (const kind of ['pointerdown', 'pointerup']) addEventListener(kind,`+
		` e => { window[kind] = e.timeStamp; window.pointerType = e.pointerType; }, true); })()`)
	taps := 0
	for range 20 {
		x, y := b.pressOn("#act-return .hold")
		time.Sleep(80 * time.Millisecond)
		b.mouse("mouseReleased", x, y)
		if heldMS := eval[float64](b, "pointerup - pointerdown"); heldMS < 900 { // longer on a busy machine, and then no tap
			taps++
		} else if len(c.commands()) > 0 {
			c.mutex.Lock()
			c.sent = nil
			c.mutex.Unlock()
		}
		if taps == 3 {
			break
		}
	}
	if taps < 3 {
		t.Fatalf("%d of 20 taps of 80 ms lasted less than 0.9 s", taps)
	}
	b.wait("document.querySelector('#act-return .hold').textContent === 'keep it pressed for 1 s'")
	b.wait("document.querySelector('#act-return .hold').textContent === '1 s: return and land'")
	x, y := b.pressOn("#act-stop .hold")
	b.until("half of the press", func() bool {
		return eval[bool](b, "parseFloat(document.querySelector('#act-stop .hold').style.getPropertyValue('--done')) > 50")
	})
	b.mouse("mouseReleased", x, y)
	eval[any](b, `(() => {
		window.progress = 0;
		const hold = document.querySelector('#act-hold .hold'), done = hold.querySelector('i');
		new MutationObserver(() => { const share = done.offsetWidth / hold.offsetWidth;
			if (share < .9) progress = Math.max(progress, share); }).observe(hold, {attributes: true, attributeFilter: ['style']});
	})()`)
	eval[any](b, "(() => { const real = window.fetch; window.fetch = (path, ...x) => { if (path === 'command') window.sent = "+
		"performance.now(); return real(path, ...x); }; })()")
	b.press("#act-hold .hold", func() bool { return len(c.commands()) > 0 })
	b.waitText("mission hold accepted")
	progress := eval[float64](b, "progress")
	if heldMS := eval[float64](b, "sent - pointerdown"); heldMS < 990 || progress == 0 { // one clock is rounded
		t.Errorf("held for %.0f ms, progress %.2f", heldMS, progress)
	}
	for i, action := range []string{"start", "stop"} {
		b.press("#act-"+action+" .hold", func() bool { return len(c.commands()) > 1+i })
		b.waitText("mission " + action + " accepted")
		if heldMS := eval[float64](b, "sent - pointerdown"); heldMS < 1990 {
			t.Errorf("%s: held for %.0f ms", action, heldMS)
		}
	}
	for i, action := range []string{"hold", "start", "stop"} {
		if got := c.commands()[i]; !strings.Contains(got, `"action":"`+action+`"`) || !strings.HasPrefix(got, "crew-1 ") {
			t.Errorf("sent %s, want %s", got, action)
		}
	}
	if n := len(c.commands()); n != 3 {
		t.Errorf("%d commands were sent", n)
	}
	b.waitText("mission stop accepted from slot 31 (id m-")
	if got, want := eval[string](b, "pointerType"), map[bool]string{false: "mouse", true: "touch"}[touches]; got != want {
		t.Errorf("pressed with a %s, want a %s", got, want)
	}
}

// A page of another site cannot command with the crew's cookie, nor a name that was pointed
// here be this server.
func TestPageOtherSites(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.leader(200 * time.Millisecond)
	b := c.open(t, "command as crew-1", 390, 844)
	target := c.URL() + "command"
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method=post enctype=text/plain action=%q><input name='{"id":"x","at":0,"kind":"mission","action":"stop",`+
			`"mission":"' value='"}'></form>`, target)
	}))
	defer evil.Close()
	_, port, _ := net.SplitHostPort(evil.Listener.Addr().String())
	for site, origin := range map[string]string{"cross-site": "http://" + evilHost + ":" + port, "same-site": "http://127.0.0.1:" + port} {
		b.navigate(origin)
		failed := eval[bool](b, fmt.Sprintf(`fetch(%q, {method: 'POST', credentials: 'include',`+
			` headers: {'Content-Type': 'application/json'}, body: '{}'}).then(() => false, () => true)`, target))
		eval[any](b, fmt.Sprintf(`fetch(%q, {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'}).then(() => null,`+
			` () => null)`, target))
		read := eval[bool](b, fmt.Sprintf(`fetch(%q, {credentials: 'include'}).then(() => true, () => false)`, c.URL()+"session"))
		if !failed || read {
			t.Errorf("%s: a script commands: %v, reads: %v", site, !failed, read)
		}
		eval[any](b, "document.forms[0].submit()")
		b.wait("location.pathname === '/command' && document.readyState === 'complete'")
		if got := eval[int](b, "performance.getEntriesByType('navigation')[0].responseStatus"); got != http.StatusForbidden {
			t.Errorf("%s: a form is answered with %d", site, got)
		}
	}
	_, port, _ = net.SplitHostPort(c.listener.Addr().String())
	b.navigate("http://" + evilHost + ":" + port + "/")
	if got := eval[int](b, "performance.getEntriesByType('navigation')[0].responseStatus"); got != http.StatusMisdirectedRequest {
		t.Errorf("another name is answered with %d", got)
	}
	if sent := c.commands(); len(sent) > 0 {
		t.Errorf("the fleet was sent %q", sent)
	}
}

// The policy holds: a script that came into the page does not run, and is counted. Every other
// test counts none.
func TestPagePolicy(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.change = func(s *telemetry.Status) {
		s.Aircraft[0].Reason, s.Aircraft[0].Mode = "<img src=x onerror=alert(1)><script>pwned=1</script>", "<img src=mode onerror=alert(1)>"
		s.LastCommand = &telemetry.LastCommand{ID: "b-9", Key: "<img src=key onerror=alert(1)>", Slot: 3,
			What: "<img src=what onerror=alert(1)>"}
	}
	c.ack = func(name string, r command.Request) (telemetry.Ack, error) {
		return telemetry.Ack{ID: r.ID(), Key: name, Reason: "<img src=answer onerror=alert(1)>"}, nil
	}
	c.leader(200 * time.Millisecond)
	b := c.open(t, "command as crew-1", 390, 844)
	b.press("#act-hold .hold", func() bool { return len(c.commands()) > 0 })
	for _, x := range []string{"x", "mode", "key", "what", "answer"} { // as text
		b.waitText("<img src=" + x + " onerror=alert(1)>")
	}
	if n := eval[int](b, "violations_ + document.querySelectorAll('img, script:not([src])').length"); n != 0 {
		t.Errorf("%d violations or elements from a message", n)
	}
	eval[any](b, `(() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s); })()`)
	b.violations = 1
	b.wait("violations_ === 1")
	if eval[bool](b, "'pwned' in window") {
		t.Error("a script in the page ran")
	}
}

// Two operators revise a budget from the same explanation: the first is in force, the second
// is refused, and each sees the other's.
func TestPageTwoOperators(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	inForceJ, last := 45000.0, (*telemetry.LastCommand)(nil)
	c.change = func(s *telemetry.Status) { s.BudgetJ, s.LastCommand = new(inForceJ), last }
	c.ack = func(name string, r command.Request) (telemetry.Ack, error) { // as the leader does; the mutex is held
		slot, no, b := 31, false, r.Budget
		if b.ReplacesJ == nil || *b.ReplacesJ != inForceJ {
			return telemetry.Ack{ID: b.ID, Key: name, Reason: fmt.Sprintf("another total is in force, %g kJ", inForceJ/1000)}, nil
		}
		inForceJ, last = b.EnergyJ, &telemetry.LastCommand{ID: b.ID, Key: name, Slot: slot,
			What: fmt.Sprintf("budget %g kJ", b.EnergyJ/1000)}
		return telemetry.Ack{ID: b.ID, Key: name, Accepted: true, EffectiveSlot: &slot, EnergyJ: &b.EnergyJ, Mode: b.Mode, Saturated: &no,
			FloorJ: new(32400.0)}, nil
	}
	c.leader(200 * time.Millisecond)
	pages := map[string]*tab{}
	for _, name := range []string{"crew-1", "crew-2"} {
		pages[name] = c.open(t, "command as "+name, 1280, 800)
	}
	for round, x := range []struct {
		first, second                string
		replacesJ, firstKJ, secondKJ int
	}{{"crew-1", "crew-2", 45000, 42, 41}, {"crew-2", "crew-1", 42000, 44, 43}} { // each is the one that is refused, once
		for name, kilojoules := range map[string]int{x.first: x.firstKJ, x.second: x.secondKJ} {
			b := pages[name]
			b.wait(fmt.Sprintf("document.getElementById('values').innerText.includes('%d.0 kJ target')", x.replacesJ/1000))
			b.focus("#energy")
			eval[any](b, "document.getElementById('energy').select()")
			b.call("Input.insertText", map[string]any{"text": fmt.Sprintf("%d kJ", kilojoules)}, nil)
			b.wait(fmt.Sprintf("/ %d kJ .*It replaces %d kJ\\./.test(document.getElementById('budget-before').textContent)", kilojoules,
				x.replacesJ/1000))
		}
		for i, name := range []string{x.first, x.second} {
			pages[name].press("#send-budget", func() bool { return len(c.commands()) > 2*round+i })
		}
		for _, b := range pages {
			b.waitText(fmt.Sprintf("%s: budget of %d kJ (target) accepted from slot 31; the floor is 32.4 kJ (id b-", x.first, x.firstKJ))
			b.waitText(fmt.Sprintf("%s: budget of %d kJ (target) refused: another total is in force, %d kJ (id b-", x.second, x.secondKJ,
				x.firstKJ))
			b.wait(fmt.Sprintf("[...document.querySelectorAll('#values div')].at(-1).innerText.includes('budget %d kJ\\n%s, from slot 31')",
				x.firstKJ, x.first))
			if n := eval[int](b, "document.querySelectorAll('#answers .no').length"); n != round+1 {
				t.Errorf("%d refusals", n)
			}
		}
		if inForceJ != float64(1000*x.firstKJ) {
			t.Errorf("%v J in force", inForceJ)
		}
	}
}

// metrics are the browser's own measurements of a page.
func (b *tab) metrics() map[string]float64 {
	b.t.Helper()
	var out struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	b.call("Performance.getMetrics", map[string]any{}, &out)
	list := map[string]float64{}
	for _, m := range out.Metrics {
		list[m.Name] = m.Value
	}
	return list
}

// publishSlot has users report, and be decided of, in one slot.
func (c *console) publishSlot(slot, users int) {
	task := telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: .9}
	for i := range users {
		id := fmt.Sprintf("u%d", i)
		at := [2]float64{float64((i*37 + slot) % 1000), float64((i*91 + 7*slot) % 1000)}
		publish(c, topics.Report(id), false, telemetry.Report{Slot: slot, PositionM: at, CPUHz: 1e9, Task: &task})
		if d := (telemetry.Decision{Slot: slot, Aircraft: i % 3, Offload: .5, CPUHz: 1e9}); i%3 > 0 {
			publish(c, topics.Decision(id), false, d)
		}
	}
	publish(c, topics.Status(), false, exampleStatus(slot))
}

// An update of 1,000 users takes the page less than 50 ms of its main thread, all included:
// parsing, drawing, layout. It is the thread's processor time, and the least of some rounds
// counts, since another program on the machine only adds to it.
func TestPageThousandUsers(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.publishSlot(1, 1000)
	b := c.open(t, "watch", 1280, 800)
	b.waitText("slot 1 of 100")
	b.call("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil) // of its own, without that of other programs
	least := time.Hour
	const updates = 8
	slot := 1
	for range 3 {
		before := b.metrics()["TaskDuration"]
		for range updates {
			slot++
			c.publishSlot(slot, 1000)
			b.waitText(fmt.Sprintf("slot %d of 100", slot))
		}
		least = min(least, time.Duration((b.metrics()["TaskDuration"]-before)/updates*float64(time.Second)))
	}
	if dots := eval[int](b, "['served', 'local', 'waiting', 'idle'].reduce((n, id) => n + "+
		"document.getElementById(id).getAttribute('d').split('M').length - 1, 0)"); dots != 1000 {
		t.Errorf("%d users are drawn", dots)
	}
	t.Logf("%v of the main thread for an update of 1,000 users", least.Round(100*time.Microsecond))
	if least > 50*time.Millisecond {
		t.Errorf("%v, want under 50 ms", least)
	}
}

// A mission of 1,200 slots leaves less than 60 MB in the page.
func TestPageMemory(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.publishSlot(0, 10)
	b := c.open(t, "watch", 1280, 800)
	for slot := 1; slot < 1200; slot++ {
		c.publishSlot(slot, 10)
		if slot%20 == 0 {
			b.waitText(fmt.Sprintf("slot %d of 100", slot)) // every so often a drawing, as in flight
		}
	}
	b.waitText("slot 1199 of 100")
	b.call("Performance.enable", map[string]any{}, nil)
	b.call("HeapProfiler.collectGarbage", map[string]any{}, nil)
	m := b.metrics()
	t.Logf("%.1f MB of JavaScript, %.0f nodes", m["JSHeapUsedSize"]/1e6, m["Nodes"])
	if m["JSHeapUsedSize"] > 60e6 || m["JSHeapUsedSize"] == 0 || m["Nodes"] > 5000 {
		t.Errorf("%.1f MB, %.0f nodes", m["JSHeapUsedSize"]/1e6, m["Nodes"])
	}
}

func (b *tab) focus(selector string) {
	b.t.Helper()
	eval[any](b, fmt.Sprintf("document.querySelector(%q).focus()", selector))
}

// tabTo goes to an element with the Tab key alone.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 60 {
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		b.key("Tab", "", nil)
	}
	b.t.Fatalf("the Tab key never reaches %s", selector)
}

// Everything is done with the keyboard alone.
func TestPageKeyboard(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.change = func(s *telemetry.Status) {
		s.Refuses = &telemetry.Refuses{Launch: "every aircraft is in the air", Clear: "no aircraft is lost"}
	}
	c.leader(200 * time.Millisecond)
	b := c.open(t, "command as crew-1", 1280, 800)
	b.waitText("wait where they are")
	sent := 0
	next := func() bool { return len(c.commands()) > sent }
	expect := func(want string) {
		t.Helper()
		if got := c.commands()[sent]; !strings.Contains(got, want) {
			t.Errorf("sent %s, want %s", got, want)
		}
		sent++
	}
	b.tabTo("#mute")
	b.waitText("Sound on")
	b.key("Enter", "\r", nil)
	b.waitText("Sound off")
	b.tabTo("#act-stop .hold")
	for range 30 { // something lies on the key
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": " ", "code": " ", "windowsVirtualKeyCode": 32,
			"autoRepeat": true}, nil)
	}
	b.focus("#mute")
	for _, action := range []string{"start", "hold", "resume", "return", "stop", "launch", "clear"} {
		want := `"action":"` + action + `"`
		if slices.Contains([]string{"launch", "clear"}, action) {
			b.focus("#mute")
			b.tabTo("#aircraft input")
			b.key(" ", " ", nil)
			b.waitText("But: every aircraft is in the air.") // as the button would get
			b.waitText("But: no aircraft is lost.")
			want += `,"aircraft":[1]`
		}
		b.tabTo("#act-" + action + " button")
		b.key(" ", " ", next)
		expect(want + "}") // a tick ends with its command
	}
	b.tabTo("#energy")
	for _, letter := range "30kJ" {
		b.key(string(letter), string(letter), nil)
	}
	b.waitText("30 kJ (30000 J, 8.333 Wh) is below the floor of 32.4 kJ")
	b.tabTo("#send-budget")
	notSent := "document.getElementById('budget').innerText.includes('Not sent: 30 kJ (30000 J, 8.333 Wh) is below the floor')"
	b.key("Enter", "\r", func() bool { return eval[bool](b, notSent) })
	b.focus("#mode")
	b.key("ArrowDown", "", nil)
	b.wait("!" + notSent) // it was about what stood there
	b.tabTo("#below")
	b.key(" ", " ", nil)
	b.waitText("must not exceed 30 kJ")
	b.tabTo("#send-budget")
	b.key("Enter", "\r", next)
	expect(`"energy_j":30000,"mode":"ceiling","replaces_j":45000`)
	// the next one is not meant so yet
	b.wait("!document.getElementById('below').checked && document.getElementById('energy').value === ''")
	c.mutex.Lock()
	c.change = func(s *telemetry.Status) {
		s.BudgetJ, s.Mode, s.RemainingJ, s.Scope, s.Setting = nil, nil, nil, "", 0.35
	}
	c.mutex.Unlock()
	b.wait("document.getElementById('setting').value === '0.35'") // the one in force
	c.mutex.Lock()
	c.change = nil
	c.mutex.Unlock()
	b.waitText("45.0 kJ target")
	b.tabTo("#setting")
	b.key("ArrowUp", "", nil)
	b.key("ArrowUp", "", nil)
	b.waitText("flies at 0.45 between")
	b.tabTo("#send-preference")
	b.key("Enter", "\r", next)
	expect(`"setting":0.45`)
	b.tabTo("#mission")
	for _, letter := range "m-2" {
		b.key(string(letter), string(letter), nil)
	}
	b.waitText("Mission m-2 begins")
	b.tabTo("#send-new")
	b.key("Enter", "\r", next)
	expect(`"action":"new","mission":"m-2"`)
	b.tabTo("#leave")
	b.key("Enter", "\r", func() bool { return slices.Contains(c.beats(), "crew-1 leaving") })
}

// contrast is the least contrast of a text to its ground, by WCAG 2's formula, over all that is
// shown; on a hatched ground to either colour. Also how small a control is.
const contrast = `(() => {
	const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
	const linear = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
	const luminance = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
	const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
	const grounds = e => {
		for (; e; e = e.parentElement) {
			const s = getComputedStyle(e);
			if (s.backgroundImage.includes('gradient')) return s.backgroundImage.match(/rgba?\([^)]*\)/g).map(parse);
			const c = parse(s.backgroundColor);
			if (c.length === 3 || c[3] > 0) return [c];
		}
		return [[255, 255, 255]];
	};
	let least = [99, ''];
	const note = (r, what) => { if (r < least[0]) least = [r, what]; };
	for (const e of document.body.querySelectorAll('*')) {
		const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.matches('input, select');
		if (!own || !e.getClientRects().length) continue;
		const s = getComputedStyle(e), ink = parse(e.ownerSVGElement ? s.fill : s.color);
		for (const g of grounds(e)) note(ratio(ink, g), e.tagName + ' ' + e.textContent.slice(0, 40));
		if (e.placeholder) note(ratio(parse(getComputedStyle(e, '::placeholder').color), grounds(e)[0]), 'placeholder');
		if (e.closest('.hold')) note(ratio(ink, parse(getComputedStyle(e.closest('.hold').firstChild).backgroundColor)), 'progress');
	}
	const small = [...document.querySelectorAll('a, button, select, input:not([type=checkbox]), .check, #aircraft label')]
		.filter(e => e.getClientRects().length && !e.closest('[hidden]'))
		.filter(e => { const r = e.getBoundingClientRect(); return r.height < 48 || r.width < 48; }).map(e => e.id || e.textContent);
	return {least: least[0], what: least[1], small, wide: document.documentElement.scrollWidth - innerWidth};
})()`

func (b *tab) checkOutdoors(when string) {
	b.t.Helper()
	x := eval[struct {
		Least, Wide float64
		What        string
		Small       []string
	}](b, contrast)
	if x.Least < 7 || len(x.Small) > 0 || x.Wide > 0 {
		b.t.Errorf("%s: contrast %.1f of %q, small %q, %v px too wide", when, x.Least, x.What, x.Small, x.Wide)
	}
	b.t.Logf("%s: least contrast %.1f", when, x.Least)
}

// In the sun: contrasts of at least 7, live and stale, with every kind of banner; controls of
// at least 48 px; nothing wider than the screen.
func TestPageOutdoors(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	c.change = func(s *telemetry.Status) {
		s.Dangers = []telemetry.Danger{{Gravity: 7, Text: "SATURATED"}, {Gravity: 6, Aircraft: 2, Text: "left OFFBOARD"}}
		s.LastCommand = &telemetry.LastCommand{ID: "b-1", Key: "crew-2", Slot: 3, What: "budget 30000 J"}
	}
	die := c.leader(200 * time.Millisecond)
	var tabs []*tab
	for _, width := range []int{320, 390, 1280} {
		tabs = append(tabs, c.open(t, "command as crew-1", width, 844))
	}
	check := func(when string) {
		t.Helper()
		for _, b := range tabs {
			b.checkOutdoors(when)
		}
	}
	tabs[0].press("#act-hold .hold", func() bool { return len(c.commands()) > 0 })
	for _, b := range tabs {
		b.waitText("SATURATED")
		b.waitText("mission hold accepted")
	}
	check("live")
	die()
	for _, b := range tabs {
		b.waitText("LINK LOST")
	}
	check("stale")
}

// STOP goes out at once from a browser with eight tabs open, whose operator's other commands all wait for
// answers. A browser has six connections to a server without TLS.
func TestPageStopWithEightTabs(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	answer := make(chan bool)
	send := c.Operators[0].Send
	c.Operators[0].Send = func(ctx context.Context, r command.Request, belowFloor bool) (telemetry.Ack, error) {
		if r.Mission == nil {
			<-answer
		}
		return send(ctx, r, belowFloor)
	}
	t.Cleanup(func() { close(answer) })
	c.leader(200 * time.Millisecond)
	b := c.open(t, "command as crew-1", 390, 844)
	for range 7 {
		eval[any](b, "open(location.pathname), null")
	}
	b.until("the other tabs", func() bool { return len(c.sessions()[0].streams) == maxTabs })
	b.call("Page.bringToFront", map[string]any{}, nil)
	b.wait("!document.hidden")
	b.wait("document.body.dataset.link === 'live'")
	codes := eval[[]int](b, fmt.Sprintf(`Promise.all([1, 2, 3, 4, 5].map(i => fetch('command', {method: 'POST',
		headers: {'Content-Type': 'application/json', Authorization: 'Bearer ' + localStorage.secret},
		body: JSON.stringify({id: 'p' + i, at: %d, kind: 'preference', setting: .5, replaces_j: 45000})}).then(r => r.status)))`,
		c.state.ms(time.Now())))
	slices.Sort(codes)
	if !slices.Equal(codes, []int{202, 202, 202, 202, 429}) {
		t.Errorf("five preferences without an answer: %d", codes)
	}
	eval[any](b, "(() => { const real = window.fetch; window.fetch = (path, ...x) => { if (path === 'command') window.sent = "+
		"performance.now(); return real(path, ...x); }; })()")
	b.press("#act-stop .hold", func() bool { return len(c.commands()) > 0 })
	if got := c.commands()[0]; !strings.Contains(got, `"action":"stop"`) {
		t.Errorf("sent %s", got)
	}
	b.waitText("mission stop accepted")
	t.Logf("answered on the page within %.0f ms of the press", eval[float64](b, "performance.now() - sent"))
}

// A page is the crew's sign of life while it can be seen and sees the fleet, and not when another covers it
// or the link is lost. What it noted itself stays when it connects again.
func TestPageHeartbeat(t *testing.T) {
	needBrowser(t)
	c := startConsole(t, live)
	die := c.leader(200 * time.Millisecond)
	watch := c.open(t, "watch", 390, 844)
	watch.waitText("slot")
	b := c.open(t, "command as crew-1", 390, 844)
	b.until("the page", func() bool { return len(c.beats()) >= 2 })
	eval[any](b, `(() => { Object.defineProperty(document, 'hidden', {get: () => true}); document.dispatchEvent(new `+
		`Event('visibilitychange')); window.posts = 0; const f = window.fetch; window.fetch = (path,`+
		` ...x) => { if (path === 'alive') posts++; return f(path, ...x); }; })()`)
	n := len(c.beats())
	eval[any](b, "new Promise(done => setTimeout(done, 3100))")             // three beats of the page's own clock
	if posts := eval[int](b, "posts"); posts != 0 || len(c.beats()) > n+1 { // one may have been on its way
		t.Errorf("a hidden page posted %d times, %d heartbeats more", posts, len(c.beats())-n)
	}
	if slices.ContainsFunc(c.beats(), func(x string) bool { return x != "crew-1" }) {
		t.Errorf("heartbeats %q", c.beats())
	}
	// One that is refused is said so, and so is a leave that does not get through.
	b = c.open(t, "command as crew-2", 390, 844)
	b.until("the page", func() bool { return slices.Contains(c.beats(), "crew-2") })
	eval[any](b, `(() => { window.real = window.fetch; window.fetch = (path, ...x) => path === 'alive' || path === 'leave' ? `+
		`Promise.resolve(new Response('', {status: 401})) : real(path, ...x); })()`)
	b.waitText("the heartbeat of this page does not get through")
	b.press("#leave", func() bool { return eval[bool](b, "document.body.innerText.includes('No answer; without another')") })
	b.press("#leave", func() bool { return eval[bool](b, "document.body.innerText.includes('1 s: stop watching')") })
	eval[any](b, `(() => {
		window.opened = 0;
		const Source = EventSource;
		window.EventSource = function(url) { const source = new Source(url);
			source.addEventListener('message', () => opened++); return source; };
		document.dispatchEvent(new Event('visibilitychange'));
	})()`)
	b.wait("opened > 1")
	eval[any](b, "window.fetch = real, null")
	b.wait("!document.getElementById('banners').innerText.includes('heartbeat of this page')")
	b.until("the page again", func() bool { return c.beats()[len(c.beats())-1] == "crew-2" })
	die()
	b.wait("document.body.dataset.link === 'lost'")
	eval[any](b, "(() => { window.posts = 0; window.fetch = (path, ...x) => { if (path === 'alive') posts++; return real(path, ...x); "+
		"}; })()")
	eval[any](b, "new Promise(done => setTimeout(done, 3100))")
	if posts := eval[int](b, "posts"); posts != 0 {
		t.Errorf("a page that shows LINK LOST posted %d times", posts)
	}
}
