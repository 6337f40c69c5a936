package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// testTimeout is how long a test waits for an event before it gives up: long enough for a
// machine with other load.
const testTimeout = time.Minute

// console is a server under test, without a broker: messages come by publish, and its
// operators note what they are given.
type console struct {
	*Server
	t     testing.TB
	links *lines
	dial  func(ctx context.Context, network, address string) (net.Conn, error) // nil: over TCP

	mutex      sync.Mutex
	now        time.Time
	sent       []string // "crew-1 {...}"
	heartbeats []string // "crew-1", "crew-1 leaving"
	ack        func(name string, r command.Request) (telemetry.Ack, error)
	change     func(s *telemetry.Status) // of what the leader publishes
}

// lines is what the terminal shows.
type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

// link returns the last link that was written for a role.
func (l *lines) link(role string) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	all := regexp.MustCompile(`(?m)^`+role+`, once: (\S+)$`).FindAllStringSubmatch(l.text.String(), -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

func startConsole(t testing.TB, change ...func(c *console)) *console {
	t.Helper()
	c := &console{t: t, links: &lines{}, now: time.Now()}
	c.Server = &Server{
		Listen: "127.0.0.1:0", Fleet: "f1", AreaM: [2]float64{1000, 1000}, StaleAfter: 3 * time.Second,
		Links: c.links, Log: slog.New(slog.DiscardHandler),
		Clock: func() time.Time {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			return c.now
		},
	}
	for _, name := range []string{"crew-1", "crew-2"} {
		c.Operators = append(c.Operators, &Operator{
			Name: name,
			Send: func(ctx context.Context, r command.Request, _ bool) (telemetry.Ack, error) {
				body, err := r.Encode()
				if until, limited := ctx.Deadline(); !limited || time.Until(until) > 5*time.Second {
					t.Errorf("a command may be repeated until %v", until)
				}
				c.mutex.Lock()
				defer c.mutex.Unlock()
				c.sent = append(c.sent, fmt.Sprintf("%s %s", name, body))
				if c.ack != nil {
					return c.ack(name, r)
				}
				slot := 31
				return telemetry.Ack{ID: r.ID(), Key: name, Accepted: true, EffectiveSlot: &slot}, err
			},
			Heartbeat: func(leaving bool) {
				c.mutex.Lock()
				defer c.mutex.Unlock()
				text := name
				if leaving {
					text += " leaving"
				}
				c.heartbeats = append(c.heartbeats, text)
			},
		})
	}
	for _, f := range change {
		f(c)
	}
	if err := c.Initialize(); err != nil {
		t.Fatal(err)
	}
	c.Start()
	c.Connected(true)
	t.Cleanup(c.Close)
	return c
}

// startInMemory starts a console that is reached over a network in memory.
func startInMemory(t testing.TB, change ...func(c *console)) *console {
	t.Helper()
	n := simnet.New(1)
	return startConsole(t, append([]func(*console){func(c *console) {
		c.Open, c.dial = n.Program("ground").Listen, n.Program("browser").Dial
	}}, change...)...)
}

// connect opens a connection without a browser.
func (c *console) connect() net.Conn {
	c.t.Helper()
	conn, err := c.dial(c.t.Context(), "tcp", c.listener.Addr().String())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

func (c *console) advance(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now = c.now.Add(d)
}

func (c *console) commands() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.sent)
}

func (c *console) beats() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.heartbeats)
}

// publish hands the server a message, as a broker would.
func publish[T telemetry.Status | telemetry.Slot | telemetry.Report | telemetry.Decision | telemetry.Result](c *console, topic string,
	retained bool, v T) {
	c.t.Helper()
	payload, err := telemetry.Encode(v)
	if err == nil {
		err = c.Handle(telemetry.Message{Topic: topic, Payload: payload, Retained: retained, Received: c.Clock()})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

var topics = func() telemetry.Topics {
	topics, err := telemetry.NewTopics("f1")
	if err != nil {
		panic(err)
	}
	return topics
}()

func exampleStatus(slot int) telemetry.Status {
	budgetJ, mode, remainingJ, endJ := 45000.0, telemetry.ModeTarget, 37900.0, 44950.0
	speed, landed, battery, age := 8.4, false, 0.91, 0.2
	s := telemetry.Status{
		Seq: int64(slot) + 2, Slot: slot, Slots: 100, MissionS: float64(slot + 1), State: telemetry.StateFlying, Setting: 0.42,
		BudgetJ: &budgetJ, Mode: &mode, SpentJ: 7100, RemainingJ: &remainingJ, PredictedEndJ: &endJ, FloorJ: 32400,
		UsersHeard: 7, DecisionMS: 0.4, EnergySource: telemetry.SourceEnergyConsumed, Challenge: strings.Repeat("c", 22),
	}
	for n := range 2 {
		at := [3]float64{300 * float64(n+1), 500, 100}
		s.Aircraft = append(s.Aircraft, telemetry.StatusAircraft{
			Number: n + 1, SystemID: n + 1, PositionM: &at, SpeedMPS: &speed, Mode: "OFFBOARD", Landed: &landed, Battery: &battery,
			EnergySource: telemetry.SourceEnergyConsumed, SpentJ: 3550, AgeS: &age,
		})
	}
	return s
}

// browser is a client with a cookie, such as a page has.
type browser struct {
	c      *console
	client *http.Client
	cookie string
	secret string // of its commands
}

func (c *console) newBrowser(role string) *browser {
	c.t.Helper()
	// Each request has a connection of its own: one that stands idle stops a bubble's time.
	b := &browser{c: c, client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: c.dial, DisableKeepAlives: true}}}
	if role == "" {
		return b
	}
	_, token, _ := strings.Cut(c.links.link(role), "#")
	r := b.do("POST", "/login", map[string]string{"Content-Type": "application/json"}, fmt.Sprintf(`{"token":%q}`, token))
	if r.status != http.StatusOK {
		c.t.Fatalf("login as %q: %d %s", role, r.status, r.body)
	}
	b.take(r)
	return b
}

// take keeps what a login gave.
func (b *browser) take(r response) {
	b.cookie, _, _ = strings.Cut(r.header.Get("Set-Cookie"), ";")
	var got struct{ Secret string }
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		b.c.t.Fatal(err)
	}
	b.secret = got.Secret
}

type response struct {
	status int
	header http.Header
	body   string
}

func (b *browser) do(method, path string, header map[string]string, body string) response {
	b.c.t.Helper()
	q, err := http.NewRequestWithContext(b.c.deadline(), method, strings.TrimSuffix(b.c.URL(), "/"), strings.NewReader(body))
	if err != nil {
		b.c.t.Fatal(err)
	}
	q.URL.Opaque = path // as it is written, uncleaned
	if b.cookie != "" {
		q.Header.Set("Cookie", b.cookie)
		q.Header.Set("Authorization", "Bearer "+b.secret)
	}
	for name, value := range header {
		if name == "Host" {
			q.Host = value
		} else {
			q.Header.Set(name, value)
		}
	}
	r, err := b.client.Do(q)
	if err != nil {
		b.c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer r.Body.Close()
	content, _ := io.ReadAll(r.Body) // the server may close on what it refuses
	return response{r.StatusCode, r.Header, string(content)}
}

func (b *browser) post(path, body string) response {
	b.c.t.Helper()
	return b.do("POST", path, map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}, body)
}

// command gives a command now, and waits for what becomes of it.
func (b *browser) command(fields string) response {
	b.c.t.Helper()
	before := b.c.state.seen()
	r := b.post("/command", fmt.Sprintf(`{"at":%d,%s}`, b.c.state.ms(b.c.Clock()), fields))
	for r.status == http.StatusAccepted && b.c.state.seen() == before {
		time.Sleep(time.Millisecond)
	}
	if r.status == http.StatusAccepted {
		b.c.state.mutex.Lock()
		defer b.c.state.mutex.Unlock()
		r.body = string(encode(b.c.state.answers[len(b.c.state.answers)-1]))
	}
	return r
}

// seen counts the answers.
func (s *state) seen() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.answersSeen
}

// events opens the event stream; next reads one event.
func (b *browser) events() (next func() event) {
	b.c.t.Helper()
	ctx, cancel := context.WithTimeout(b.c.t.Context(), testTimeout)
	b.c.t.Cleanup(cancel)
	q, _ := http.NewRequestWithContext(ctx, "GET", b.c.URL()+"events", nil)
	q.Header.Set("Cookie", b.cookie)
	q.Header.Set("Authorization", "Bearer "+b.secret)
	r, err := b.client.Do(q)
	if err != nil {
		b.c.t.Fatal(err)
	}
	b.c.t.Cleanup(func() { r.Body.Close() })
	if r.StatusCode != http.StatusOK {
		b.c.t.Fatalf("events: %s", r.Status)
	}
	reader := bufio.NewReader(r.Body)
	return func() (e event) {
		b.c.t.Helper()
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				b.c.t.Fatalf("events: %v", err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					b.c.t.Fatalf("%v in %s", err, data)
				}
				return e
			}
		}
	}
}

const start = `"id":"m1","kind":"mission","action":"start"`

// wholePolicy is the policy of the requirements, a second time: nothing may be added to it or left out.
const wholePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// TestAttacks is the table of docs/console.md: whatever comes over HTTP, nothing of it
// reaches the fleet, and the next request is answered.
func TestAttacks(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		publish(c, topics.Status(), false, exampleStatus(17))
		roles := map[string]*browser{"nobody": c.newBrowser(""), "watch": c.newBrowser("watch"),
			"command": c.newBrowser("command as crew-1")}
		js := map[string]string{"Content-Type": "application/json"}
		with := func(pairs ...string) map[string]string {
			h := map[string]string{"Content-Type": "application/json"}
			for i := 0; i < len(pairs); i += 2 {
				h[pairs[i]] = pairs[i+1]
			}
			return h
		}
		host := strings.TrimSuffix(strings.TrimPrefix(c.URL(), "http://"), "/")
		now := fmt.Sprintf(`{"at":%d,`, c.state.ms(c.Clock()))
		good := now + start + "}"
		_, token, _ := strings.Cut(c.links.link("watch"), "#")
		for _, x := range []struct {
			name, role, method, path string
			header                   map[string]string
			body                     string
			status                   int
		}{
			{"a name that was pointed here (DNS rebinding)", "command", "POST", "/command", with("Host", "evil.example"), good, 421},
			{"the same to read", "command", "GET", "/events", with("Host", "evil.example:8480"), "", 421},
			{"another port of this host", "command", "GET", "/", with("Host", "127.0.0.1:1"), "", 421},
			{"a name with a dot at its end", "command", "GET", "/", with("Host", strings.Replace(host, ":", ".:", 1)), "", 421},
			{"a form on another site", "command", "POST", "/command", with("Sec-Fetch-Site", "cross-site"), good, 403},
			{"a page on another port of this host", "command", "POST", "/command", with("Sec-Fetch-Site", "same-site"), good, 403},
			{"an old browser on another site", "command", "POST", "/command", with("Origin", "http://evil.example"), good, 403},
			{"a sandboxed frame", "command", "POST", "/command", with("Origin", "null"), good, 403},
			{"login from another site", "nobody", "POST", "/login", with("Sec-Fetch-Site", "cross-site"), `{"token":"` + token + `"}`, 403},
			{"reading from another site", "command", "GET", "/events", with("Sec-Fetch-Site", "cross-site"), "", 403},
			{"reading from another port", "command", "GET", "/session", with("Sec-Fetch-Site", "same-site"), "", 403},
			{"no cookie", "nobody", "POST", "/command", js, good, 401},
			{"no cookie, to read", "nobody", "GET", "/events", nil, "", 401},
			{"no cookie, a heartbeat", "nobody", "POST", "/alive", js, "{}", 401},
			{"a token in place of a cookie", "nobody", "GET", "/session?token=" + token, nil, "", 401},
			{"a token as a cookie", "nobody", "GET", "/session", with("Cookie", c.access.cookieName()+"="+token), "", 401},
			{"a cookie made up", "nobody", "GET", "/session", with("Cookie", c.access.cookieName()+"=AAAAAAAAAAAAAAAAAAAAAAAAAA"), "", 401},
			{"a long cookie", "nobody", "GET", "/session", with("Cookie", c.access.cookieName()+"="+strings.Repeat("A", 4000)), "", 401},
			{"a token guessed", "nobody", "POST", "/login", js, `{"token":"AAAAAAAAAAAAAAAAAAAAAAAAAA"}`, 403},
			{"no token", "nobody", "POST", "/login", js, `{}`, 403},
			{"who may watch commands", "watch", "POST", "/command", js, good, 403},
			{"who may watch asks what it would do", "watch", "POST", "/preview", js, good, 403},
			{"who may watch is a sign of life", "watch", "POST", "/alive", js, "{}", 403},
			{"who may watch withdraws the crew", "watch", "POST", "/leave", js, "{}", 403},
			{"a heartbeat without a page that receives", "command", "POST", "/alive", js, "{}", 409},
			{"the cookie alone, as another port of this host receives it", "command", "POST", "/command", with("Authorization", ""), good,
				403},
			{"the cookie alone, to read", "command", "GET", "/events", with("Authorization", ""), "", 403},
			{"the cookie alone, to end the session", "command", "POST", "/logout", with("Authorization", ""), "{}", 403},
			{"the cookie with a secret made up", "command", "POST", "/command", with("Authorization", "Bearer AAAAAAAAAAAAAAAAAAAAAAAAAA"),
				good, 403},
			{"the secret of another session", "command", "POST", "/command", with("Authorization", "Bearer "+roles["watch"].secret), good,
				403},
			{"the secret without a cookie", "nobody", "POST", "/command", with("Authorization", "Bearer "+roles["command"].secret), good,
				401},
			{"a heartbeat with the cookie alone", "command", "POST", "/alive", with("Authorization", ""), "{}", 403},
			{"the crew is withdrawn with the cookie alone", "command", "POST", "/leave", with("Authorization", ""), "{}", 403},
			{"somebody else is logged out", "command", "POST", "/logout", with("Sec-Fetch-Site", "same-site"), "{}", 403},
			{"a form's encoding, which needs no preflight", "command", "POST", "/command", with("Content-Type", "text/plain"), good, 415},
			{"no encoding", "command", "POST", "/command", with("Content-Type", ""), good, 415},
			{"a body of 1 MB", "command", "POST", "/command", js, now + `"id":"` + strings.Repeat("a", 1<<20) + `"}`, 413},
			{"a login of 1 MB", "nobody", "POST", "/login", js, `{"token":"` + strings.Repeat("a", 1<<20) + `"}`, 413},
			{"headers of 1 MB", "nobody", "GET", "/", with("X", strings.Repeat("a", 1<<20)), "", 431},
			{"not JSON", "command", "POST", "/command", js, "start", 400},
			{"nested without end", "command", "POST", "/command", js, strings.Repeat("[", 4000), 400},
			{"a field that there is not", "command", "POST", "/command", js, now + start + `,"key":"crew-2"}`, 400},
			{"two commands in one", "command", "POST", "/command", js, good + good, 400},
			{"a command 6 s old", "command", "POST", "/command", js, fmt.Sprintf(`{"at":%d,%s}`, c.state.ms(c.Clock())-6000, start), 409},
			{"a command from the future", "command", "POST", "/command", js, fmt.Sprintf(`{"at":%d,%s}`, c.state.ms(c.Clock())+6000, start),
				409},
			{"an id that is a topic", "command", "POST", "/command", js, now + `"id":"a/b","kind":"mission","action":"start"}`, 422},
			{"no id", "command", "POST", "/command", js, now + `"kind":"mission","action":"start"}`, 422},
			{"another kind of message", "command", "POST", "/command", js, now + `"id":"x","kind":"online"}`, 422},
			{"an action that there is not", "command", "POST", "/command", js, now + `"id":"x","kind":"mission","action":"arm"}`, 422},
			{"an aircraft that cannot be", "command", "POST", "/command", js,
				now + `"id":"x","kind":"mission","action":"launch","aircraft":[65]}`, 422},
			{"a total that is no number", "command", "POST", "/command", js,
				now + `"id":"x","kind":"budget","energy":"NaN","mode":"target"}`,
				422},
			{"a total without a unit, perhaps of kJ", "command", "POST", "/command", js,
				now + `"id":"x","kind":"budget","energy":"42","mode":"target"}`, 422},
			{"a total below the floor, not meant so", "command", "POST", "/command", js,
				now + `"id":"x","kind":"budget","energy":"30 kJ","mode":"target"}`, 422},
			{"a setting outside the axis", "command", "POST", "/command", js, now + `"id":"x","kind":"preference","setting":1.5}`, 422},
			{"a command by GET", "command", "GET", "/command", js, "", 405},
			{"PUT", "command", "PUT", "/", js, "x", 405},
			{"DELETE", "command", "DELETE", "/events", nil, "", 405},
			{"TRACE, which would show the cookie", "command", "TRACE", "/", nil, "", 405},
			{"CONNECT, a proxy", "command", "CONNECT", "/", nil, "", 405},
			{"a preflight", "command", "OPTIONS", "/command", with("Origin", "http://evil.example", "Access-Control-Request-Method",
				"POST"),
				"", 405},
			{"a file of the disk", "command", "GET", "/../../../../etc/passwd", nil, "", 404},
			{"the same, escaped", "command", "GET", "/%2e%2e/%2e%2e/etc/passwd", nil, "", 404},
			{"the source", "command", "GET", "/page/app.js", nil, "", 404},
			{"profiles of the process", "command", "GET", "/debug/pprof/", nil, "", 404},
			{"a picture that there is not", "command", "GET", "/picture", nil, "", 404},
		} {
			if x.method == "CONNECT" {
				continue // Go's client wants a proxy for it; TestBrokenRequests sends one
			}
			r := roles[x.role].do(x.method, x.path, x.header, x.body)
			if r.status != x.status && !(x.status == 404 && (r.status == 301 || r.status == 307)) {
				t.Errorf("%s: %d %.80q, want %d", x.name, r.status, r.body, x.status)
			}
			if r.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: another origin may read the answer", x.name)
			}
			if policySent := r.header.Get("Content-Security-Policy"); policySent != wholePolicy && r.status != 421 && r.status != 431 {
				t.Errorf("%s: policy %q", x.name, policySent)
			}
			for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-"} {
				if got := r.header.Get(name); !strings.HasPrefix(got, want) && r.status != 421 && r.status != 431 {
					t.Errorf("%s: %s %q", x.name, name, got)
				}
			}
			if strings.Contains(r.body, "<") && r.header.Get("Content-Type") == "text/html; charset=utf-8" && x.path != "/" {
				t.Errorf("%s: an answer of HTML: %.80q", x.name, r.body)
			}
		}
		if sent, beats := c.commands(), c.beats(); len(sent)+len(beats) > 0 {
			t.Errorf("the fleet was sent %q and heartbeats %q", sent, beats)
		}
		if r := roles["command"].command(start); r.status != 202 || len(c.commands()) != 1 {
			t.Errorf("afterwards: %d %s, sent %q", r.status, r.body, c.commands())
		}
	})
}

// What is no request of HTTP is refused, and the next one is answered.
func TestBrokenRequests(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		for _, text := range []string{
			"", "\n", "GET\r\n\r\n", "\x16\x03\x01\x02\x00", strings.Repeat("A", 1<<20), "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
			"GET / HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 100000), "GET / HTTP/9\r\n\r\n",
			"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n\r\n",
			"POST /command HTTP/1.1\r\nHost: " + c.hosts[0] +
				"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		} {
			conn := c.connect()
			conn.SetDeadline(time.Now().Add(testTimeout))
			io.WriteString(conn, text)
			conn.(interface{ CloseWrite() error }).CloseWrite()
			answer, _ := io.ReadAll(conn) // a reset counts as a refusal
			conn.Close()
			if strings.Contains(string(answer), "200 OK") {
				t.Errorf("%.40q was answered with %.200q", text, answer)
			}
		}
		if r := c.newBrowser("").do("GET", "/", nil, ""); r.status != 200 || !strings.Contains(r.body, "<!doctype html>") {
			t.Errorf("afterwards: %d", r.status)
		}
	})
}

// A link is good once. The cookie is out of reach of scripts, of other sites and, where there
// is TLS, of plain HTTP and of other hosts of the domain.
func TestLogin(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		certificate := newCertificate(t, "field.example")
		for _, x := range []struct {
			name   string
			change func(c *console)
			cookie string
		}{
			{"loopback", func(*console) {}, `^ground-\d+=[A-Z2-7]{26}; Path=/; Max-Age=86400; HttpOnly; SameSite=Strict$`},
			{"TLS", func(c *console) { c.Certificate = certificate },
				`^__Host-ground-\d+=[A-Z2-7]{26}; Path=/; Max-Age=86400; HttpOnly; Secure; SameSite=Strict$`},
		} {
			c := startInMemory(t, x.change)
			link := c.links.link("command as crew-2")
			if _, token, _ := strings.Cut(link, "#"); !strings.HasPrefix(link, c.URL()+"#") || len(token) != 26 {
				t.Fatalf("%s: link %q", x.name, link)
			}
			nobody := c.newBrowser("")
			_, token, _ := strings.Cut(link, "#")
			for _, want := range []int{200, 403} {
				r := nobody.post("/login", `{"token":"`+token+`"}`)
				if cookie := r.header.Get("Set-Cookie"); r.status != want || want == 200 &&
					!regexp.MustCompile(x.cookie).MatchString(cookie) ||
					want == 403 && cookie != "" {
					t.Errorf("%s: %d, cookie %q", x.name, r.status, cookie)
				}
			}
			if c.links.link("command as crew-2") == link {
				t.Errorf("%s: no new link after the first was used", x.name)
			}
			b := c.newBrowser("command as crew-2")
			if r := b.do("GET", "/session", nil, ""); !strings.Contains(r.body, `"role":"command","name":"crew-2"`) {
				t.Errorf("%s: %s", x.name, r.body)
			}
			again := startInMemory(t, x.change) // as after a restart: neither cookie nor token is good
			_, token, _ = strings.Cut(c.links.link("watch"), "#")
			_, value, _ := strings.Cut(b.cookie, "=")
			if r := again.newBrowser("").do("GET", "/session", map[string]string{"Cookie": again.access.cookieName() + "=" + value},
				""); r.status != 401 {
				t.Errorf("%s: the cookie of another start: %d", x.name, r.status)
			}
			if r := again.newBrowser("").post("/login", `{"token":"`+token+`"}`); r.status != 403 {
				t.Errorf("%s: the token of another start: %d", x.name, r.status)
			}
			c.advance(sessionLasts + time.Second)
			if r := b.do("GET", "/session", nil, ""); r.status != 401 {
				t.Errorf("%s: a day later %d", x.name, r.status)
			}
		}
	})
}

// A link is good for an hour; one that comes later is told so, and the terminal shows another. One who may
// command stays so with a link to watch. Who came and left is noted where the links are.
func TestLinks(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		b := c.newBrowser("command as crew-1")
		old := b.cookie
		_, token, _ := strings.Cut(c.links.link("watch"), "#")
		if r := b.post("/login", `{"token":"`+token+`"}`); r.status != 200 || r.header.Get("Set-Cookie") != "" {
			t.Errorf("a link to watch: %d, cookie %q", r.status, r.header.Get("Set-Cookie"))
		}
		if r := b.command(start); r.status != 202 {
			t.Errorf("after a link to watch: %d %s", r.status, r.body)
		}
		ended, _ := b.stream()
		_, token, _ = strings.Cut(c.links.link("command as crew-2"), "#")
		b.take(b.post("/login", `{"token":"`+token+`"}`))
		b.streamEnds("another operator's link", ended, false)
		if r := b.do("GET", "/session", map[string]string{"Cookie": old}, ""); r.status != 401 {
			t.Errorf("the session before another operator's link: %d", r.status)
		}
		ended, _ = b.stream()
		if r := b.post("/logout", "{}"); r.status != 204 || !strings.Contains(r.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("logout: %d %q", r.status, r.header.Get("Set-Cookie"))
		}
		b.streamEnds("after the logout", ended, false)
		if r := b.command(start); r.status != 401 {
			t.Errorf("after the logout: %d %s", r.status, r.body)
		}
		link := c.links.link("command as crew-1")
		c.advance(linkLasts + time.Second)
		_, token, _ = strings.Cut(link, "#")
		if r := c.newBrowser("").post("/login", `{"token":"`+token+`"}`); r.status != 403 || !strings.Contains(r.body,
			"older than an hour") {
			t.Errorf("an hour later: %d %s", r.status, r.body)
		}
		if c.links.link("command as crew-1") == link {
			t.Error("no new link for one that is too old")
		}
		c.newBrowser("command as crew-1")
		for _, want := range []string{"login to command as crew-1, from 127.0.0.1:", "login to command as crew-2, from 127.0.0.1:",
			"logout from command as crew-2, from 127.0.0.1:"} {
			if !regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT[\d:]+Z ` + want).MatchString(c.links.text.String()) {
				t.Errorf("no %q in\n%s", want, c.links.text.String())
			}
		}
	})
}

// Sessions have places. The oldest goes for a new one, and an operator's after all of those who watch.
func TestSessionPlaces(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		operator := c.newBrowser("command as crew-1")
		for range maxSessions {
			c.newBrowser("watch")
		}
		if r := operator.do("GET", "/session", nil, ""); r.status != 200 {
			t.Errorf("the operator: %d", r.status)
		}
	})
}

// Older versions of TLS are refused.
func TestTLSVersion(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t, func(c *console) { c.Certificate = newCertificate(t, "field.example") })
		conn := tls.Client(c.connect(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
		if err := conn.Handshake(); err == nil {
			t.Error("TLS 1.2 is accepted")
		}
	})
}

// Some commands of an operator may wait for their answers at a time, and one more is refused until one
// is answered. They keep out neither another operator's nor a STOP, of which as many may wait.
func TestSendingPlaces(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		answer := make(chan bool)
		c := startInMemory(t)
		for _, o := range c.Operators {
			o.Send = func(_ context.Context, r command.Request, _ bool) (telemetry.Ack, error) {
				<-answer
				return telemetry.Ack{ID: r.ID(), Reason: "test"}, nil
			}
		}
		n := 0
		order := func(b *browser, action string, want int) {
			t.Helper()
			n++
			r := b.post("/command", fmt.Sprintf(`{"id":"m%d","kind":"mission","action":%q,"at":%d}`, n, action, c.state.ms(c.Clock())))
			if r.status != want || want == 429 && !strings.Contains(r.body, "not sent") {
				t.Errorf("%s, the %d. in all: %d %s, want %d", action, n, r.status, r.body, want)
			}
		}
		first, second := c.newBrowser("command as crew-1"), c.newBrowser("command as crew-2")
		for _, action := range []string{"hold", "stop"} {
			for range maxSending {
				order(first, action, 202)
			}
			order(first, action, 429)
			order(second, action, 202)
		}
		seen := c.state.seen()
		answer <- true
		for c.state.seen() == seen {
			time.Sleep(time.Millisecond)
		}
		close(answer)
		for c.state.seen() < n {
			time.Sleep(time.Millisecond)
		}
		order(first, "hold", 202)
	})
}

// Each operator's commands are sent with its own key.
func TestOperators(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		publish(c, topics.Status(), false, exampleStatus(17))
		for _, name := range []string{"crew-1", "crew-2"} {
			r := c.newBrowser("command as " + name).command(`"id":"b-` + name +
				`","kind":"budget","energy":"42 kJ","mode":"target","replaces_j":45000`)
			if r.status != 202 || !strings.Contains(r.body, `"by":"`+name+`","ok":true`) || !strings.Contains(r.body, "key "+name) ||
				!strings.Contains(r.body, "from slot 31") {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
		}
		want := []string{
			`crew-1 {"id":"b-crew-1","energy_j":42000,"mode":"target","replaces_j":45000}`,
			`crew-2 {"id":"b-crew-2","energy_j":42000,"mode":"target","replaces_j":45000}`,
		}
		if got := c.commands(); !slices.Equal(got, want) {
			t.Errorf("sent %q", got)
		}
		if r := c.newBrowser("watch").do("GET", "/session", nil, ""); !strings.Contains(r.body, `"signed":false`) {
			t.Errorf("answers that nobody verifies: %s", r.body)
		}
		// Every page is told of both, also one that comes later.
		e := c.newBrowser("watch").events()()
		if len(e.Answers) != 2 || e.Answers[0].By != "crew-1" || e.Answers[1].By != "crew-2" || e.Welcome.Role != "watch" ||
			e.Welcome.Name != "" {
			t.Errorf("told %+v", e)
		}
		c.ack = func(string, command.Request) (telemetry.Ack, error) {
			return telemetry.Ack{}, errors.New("no acknowledgement within 5s: \x1b[2J<b>")
		}
		if r := c.newBrowser("command as crew-1").command(start); r.status != 202 || !strings.Contains(r.body, `"ok":false`) ||
			!strings.Contains(r.body, `?[2J\u003cb\u003e`) {
			t.Errorf("no answer: %d %s", r.status, r.body)
		}
	})
}

// A page is told all that is known when it comes, then changes. What the broker had kept
// has no age, and what is repeated is not new.
func TestEvents(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		publish(c, topics.Status(), true, exampleStatus(3))
		b := c.newBrowser("watch")
		next := b.events()
		e := next()
		if e.State == nil || !e.Link.Retained || e.State.Status.Slot != 3 || len(e.Samples) != 0 || e.State.Status.Challenge != "" {
			t.Fatalf("first %+v", e)
		}
		report := telemetry.Report{Slot: 4, PositionM: [2]float64{312.4, 844.5}, CPUHz: 1e9,
			Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: .9}}
		publish(c, topics.Report("u1"), false, report)
		report.Task = nil
		publish(c, topics.Report("u2"), false, report)
		publish(c, topics.Decision("u1"), false, telemetry.Decision{Slot: 4, Aircraft: 2, Offload: .5, CPUHz: 1e9})
		publish(c, topics.Report("u3"), false, report)
		for id, s := range map[string]float64{"u1": .2, "u3": .4} {
			publish(c, topics.Result(id), false, telemetry.Result{Slot: 4, CompletionS: s, By: telemetry.ByDecision})
		}
		for slot := 4; slot <= 6; slot++ {
			publish(c, topics.Status(), false, exampleStatus(slot))
		}
		receivedMS := c.state.ms(c.Clock())
		var samples []json.RawMessage
		var users string
		for len(samples) < 3 {
			e = next()
			samples, users = append(samples, e.Samples...), users+string(e.Users)
		}
		if e.Link.Retained || e.T-e.Link.AgeMS != receivedMS {
			t.Errorf("state %+v, link %+v", e.State, e.Link)
		}
		if !strings.Contains(users, `["u1",312,844,2]`) || !strings.Contains(users, `["u2",312,844,-1]`) {
			t.Errorf("users %s", users)
		}
		if got := string(samples[2]); got != "[6,7100,44950,32400,45000,0.42,0.3,7]" {
			t.Errorf("sample %s", got)
		}
		c.advance(2 * time.Second)
		publish(c, topics.Status(), false, exampleStatus(6)) // as a bridge repeats it
		publish(c, topics.Status(), true, exampleStatus(6))
		c.Connected(true)
		for e = next(); e.State == nil; e = next() {
		}
		if e.T-e.Link.AgeMS != receivedMS || e.Link.Retained {
			t.Errorf("a repeated status counts as new: %+v", e.Link)
		}
		// A page that comes now is told the same.
		late := c.newBrowser("watch").events()()
		if len(late.Samples) != 3 || len(late.Trail) != 3 || string(late.Trail[0]) != "[4,[1,300,500,100],[2,600,500,100]]" {
			t.Errorf("a late page: %s %s", late.Samples, late.Trail)
		}
		// Another mission begins another history.
		publish(c, topics.Status(), false, exampleStatus(0))
		for e = next(); len(e.Samples) == 0; e = next() {
		}
		if e.History == late.History || len(e.Samples) != 1 {
			t.Errorf("the next mission: %+v", e)
		}
		// So does a budget of another scope: a chart has joules of one.
		before, landed := e.History, exampleStatus(1)
		landed.Scope = telemetry.ScopeLanded
		publish(c, topics.Status(), false, landed)
		for e = next(); len(e.Samples) == 0; e = next() {
		}
		if e.History == before || len(e.Samples) != 1 {
			t.Errorf("another scope: %+v", e)
		}
	})
}

// A station is alive while a page is, and no longer.
func TestHeartbeats(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		b, second := c.newBrowser("command as crew-1"), c.newBrowser("command as crew-1")
		next := b.events()
		next()
		if r := b.post("/alive", "{}"); r.status != 409 || !strings.Contains(r.body, "does not see the fleet") {
			t.Errorf("before a status: %d %s", r.status, r.body)
		}
		publish(c, topics.Status(), false, exampleStatus(17))
		if r := second.post("/alive", "{}"); r.status != 409 {
			t.Errorf("a page without events: %d", r.status)
		}
		for range 3 {
			b.post("/alive", "{}")
			b.post("/alive", "{}") // another page of the operator: at most one a second
			c.advance(time.Second)
		}
		if got := c.beats(); len(got) != 3 {
			t.Errorf("heartbeats %q, want 3", got)
		}
		if r := b.post("/alive", "{}"); r.status != 409 || len(c.beats()) != 3 { // LINK LOST at 3 s
			t.Errorf("of a page that is blind: %d, heartbeats %q", r.status, c.beats())
		}
		c.advance(time.Minute) // no page says anything: nothing is sent for it
		if got := c.beats(); len(got) != 3 {
			t.Errorf("heartbeats %q without a page", got)
		}
		b.post("/leave", "{}")
		if got := c.beats(); got[len(got)-1] != "crew-1 leaving" {
			t.Errorf("heartbeats %q", got)
		}
		for name, x := range map[string]struct {
			since time.Duration
			want  []string
		}{
			"with a page":                 {time.Second, []string{"crew-1", "crew-1 leaving"}},
			"a minute after the last one": {time.Minute, []string{"crew-1"}}, // the leader is to notice
		} {
			c := startInMemory(t)
			b := c.newBrowser("command as crew-1")
			b.events()()
			publish(c, topics.Status(), false, exampleStatus(17))
			b.post("/alive", "{}")
			c.advance(x.since)
			c.Close()
			if got := c.beats(); !slices.Equal(got, x.want) {
				t.Errorf("ended %s: %q", name, got)
			}
		}
	})
}

// The picture beneath the map shows where the fleet is: not without a cookie.
func TestPicture(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t, func(c *console) {
			c.Picture = &Picture{Image: []byte("\x89PNG"), Type: "image/png", AtM: [4]float64{-50, -60, 1000, 1100}}
		})
		if r := c.newBrowser("").do("GET", "/picture", nil, ""); r.status != 401 {
			t.Errorf("without a cookie: %d", r.status)
		}
		b := c.newBrowser("watch")
		if r := b.do("GET", "/picture", nil, ""); r.status != 200 || r.body != "\x89PNG" || r.header.Get("Content-Type") != "image/png" {
			t.Errorf("%d %q", r.status, r.body)
		}
		if e := b.events()(); *e.Welcome.Picture != c.Picture.AtM {
			t.Errorf("placed at %v", e.Welcome.Picture)
		}
	})
}

// Streams have places. A session's newest page takes the place of its oldest, so that a phone's
// connections that no longer carry anything do not keep it out. Those who watch find none when
// others have all; an operator always does.
func TestStreamPlaces(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		first := c.newBrowser("watch")
		var ended []<-chan string
		for range maxTabs {
			e, _ := first.stream()
			ended = append(ended, e)
		}
		for i := range 2 {
			first.stream()
			first.streamEnds("the oldest page", ended[i], true)
		}
		var leave func()
		for range maxStreams/maxTabs - 1 {
			b := c.newBrowser("watch")
			for range maxTabs {
				_, leave = b.stream()
			}
		}
		if r := c.newBrowser("watch").do("GET", "/events", nil, ""); r.status != 503 {
			t.Errorf("one page too many: %d", r.status)
		}
		first.stream()
		first.streamEnds("the oldest page, all places taken", ended[2], true)
		select {
		case <-ended[3]:
			t.Error("another page's stream ended")
		default:
		}
		lone := c.newBrowser("command as crew-1") // with all places of those who watch taken
		loneEnds, _ := lone.stream()
		ended = nil
		for range maxStreams/maxTabs - 1 {
			b := c.newBrowser("command as crew-1")
			for range maxTabs {
				e, _ := b.stream()
				ended = append(ended, e)
			}
		}
		for _, pages := range []int{maxTabs - 1, 1} { // the last places, and then another's
			b := c.newBrowser("command as crew-1")
			for range pages {
				b.stream()
			}
		}
		n := 0
		for until := time.Now().Add(testTimeout); n != 1 && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			n = 0
			for _, e := range ended {
				n += len(e)
			}
		}
		if n != 1 || len(loneEnds) > 0 {
			t.Errorf("%d pages of browsers with several made room, the only one of its browser %v", n, len(loneEnds) > 0)
		}
		leave() // a page that goes leaves its place
		newcomer := c.newBrowser("watch")
		for until := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
			r, err := newcomer.get("/events")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("the place of a page that went is not free: %s", r.Status)
			}
		}
	})
}

// However many connections stand idle, the next one is answered; an operator's stays.
func TestConnectionPlaces(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		publish(c, topics.Status(), false, exampleStatus(17))
		operator := c.newBrowser("command as crew-1")
		ended, _ := operator.stream()
		var conns []net.Conn
		for range 2 * maxConns {
			conns = append(conns, c.connect())
		}
		conns[0].SetReadDeadline(time.Now().Add(testTimeout))
		if _, err := conns[0].Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the oldest idle connection keeps its place")
		}
		newcomer := c.newBrowser("command as crew-2")
		if r := newcomer.command(start); r.status != 202 {
			t.Errorf("a newcomer's command: %d %s", r.status, r.body)
		}
		if r := operator.command(`"id":"s1","kind":"mission","action":"stop"`); r.status != 202 || len(ended) > 0 {
			t.Errorf("the operator's: %d %s, stream ended %v", r.status, r.body, len(ended) > 0)
		}
	})
}

// A port that another program has is named with the flag that chooses another.
func TestPortInUse(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		taken := c.listener.Addr().String()
		s := &Server{Listen: taken, Open: c.Open, AreaM: [2]float64{1, 1}, Fleet: "f1", Log: slog.New(slog.DiscardHandler)}
		err := s.Initialize()
		if err == nil || !strings.Contains(err.Error(), taken+" for browsers is in use by another program") ||
			!strings.Contains(err.Error(), "-listen") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
	})
}

func TestCheck(t *testing.T) {
	certificate := newCertificate(t, "field.example")
	s := &Server{Listen: ":8480", Certificate: newCertificate(t, "crew-1", x509.ExtKeyUsageClientAuth), AreaM: [2]float64{1, 1}}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "certificate of crew-1: for a client") {
		t.Errorf("a client's certificate: %v", err)
	}
	s = &Server{Listen: "127.0.0.1:0", AreaM: [2]float64{1, 1}, Operators: []*Operator{{Name: "crew-1"}, {Name: "crew-1"}}}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "two keys are named crew-1") {
		t.Errorf("two keys of one name: %v", err)
	}
	for listen, want := range map[string]struct{ plain, tls string }{
		"127.0.0.1:8480":    {"", ""},
		"localhost:8480":    {"", ""},
		"[::1]:8480":        {"", ""},
		"0.0.0.0:8480":      {"-tls-cert", ""},
		":8480":             {"-tls-cert", ""},
		"192.0.2.7:8480":    {"-tls-cert", ""},
		"field.example:443": {"-tls-cert", ""},
		"8480":              {"want host:port", "want host:port"},
	} {
		for _, x := range []struct {
			certificate *tls.Certificate
			want        string
		}{{nil, want.plain}, {certificate, want.tls}} {
			s := &Server{Listen: listen, Certificate: x.certificate, AreaM: [2]float64{1000, 1000}}
			if err := s.Check(); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s, TLS %v: %v", listen, x.certificate != nil, err)
			}
		}
	}
}

// The page is small, whole, and has no script or style in its HTML, which the policy refuses.
func TestPage(t *testing.T) {
	served := map[string]bool{}
	for _, f := range files {
		served[f.name] = true
	}
	total := 0
	entries, err := page.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := page.ReadFile("page/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		total += len(content)
		if !served["page/"+entry.Name()] {
			t.Errorf("%s is embedded, and not served", entry.Name())
		}
		if text := string(content); !strings.HasPrefix(entry.Name(), "uplot") &&
			regexp.MustCompile(`https?://(?:[^w]|w[^w])|<style|style="|on(click|load)="|innerHTML|eval\(|import\(`).MatchString(text) {
			t.Errorf("%s: refused by the policy, or fetched at run time", entry.Name())
		}
	}
	if total >= 102_000 {
		t.Errorf("%d bytes, want under 102,000", total)
	}
	t.Logf("%d bytes", total)
}

// newCertificate makes one that signs itself, for a name and loopback.
func newCertificate(t testing.TB, name string, usage ...x509.ExtKeyUsage) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name}, ExtKeyUsage: usage,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (c *console) sessions() (list []*session) {
	c.access.mutex.Lock()
	defer c.access.mutex.Unlock()
	for _, s := range c.access.sessions {
		list = append(list, s)
	}
	return list
}

// ageMS is the age of the last status.
func (s *state) ageMS(now time.Time) int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.link.Age(now).Milliseconds()
}

func (c *console) deadline() context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), testTimeout)
	c.t.Cleanup(cancel)
	return ctx
}

// What one user sends changes what is shown of it, and of nobody else.
func TestHostileUser(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		publish(c, topics.Status(), false, exampleStatus(3))
		task := &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: .9}
		report := func(id string, slot int) {
			t.Helper()
			publish(c, topics.Report(id), false, telemetry.Report{Slot: slot, PositionM: [2]float64{312, 844}, CPUHz: 1e9, Task: task})
		}
		result := func(id string, slot int, s float64) {
			t.Helper()
			publish(c, topics.Result(id), false, telemetry.Result{Slot: slot, CompletionS: s, By: telemetry.ByDecision})
		}
		for slot := 4; slot <= 6; slot++ {
			report("u1", slot)
			publish(c, topics.Decision("u1"), false, telemetry.Decision{Slot: slot, Aircraft: 2, Offload: .5, CPUHz: 1e9})
			for _, wrong := range []int{0, slot - 2, slot + 3, 1e9} {
				report("evil", wrong)
			}
			result("u1", slot, .2)
			result("u1", slot, 86400) // a second one
			result("evil", slot, 86400)
			report("evil", slot)
			report("evil", slot-1)
			result("evil", slot+1, 86400) // of a slot that it did not report in
			result("evil", slot, .4)
			result("evil", slot, 86400)
			publish(c, topics.Status(), false, exampleStatus(slot))
		}
		e := c.newBrowser("watch").events()()
		if got := string(e.Users); !strings.Contains(got, `["u1",312,844,2]`) {
			t.Errorf("users %s", got)
		}
		if got := string(e.Samples[len(e.Samples)-1]); got != "[6,7100,44950,32400,45000,0.42,0.3,7]" {
			t.Errorf("sample %s", got)
		}
	})
}

// What does not name the total that it replaces is not sent over one that another crew ordered
// meanwhile: a budget whose page showed none, and a preference.
func TestReplaces(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		for _, x := range []struct {
			name, order string
			inForce     bool // 45 kJ
			status      int
		}{
			{"a budget over one not shown", `"kind":"budget","energy":"42 kJ","mode":"target"`, true, 409},
			{"a budget over none", `"kind":"budget","energy":"42 kJ","mode":"target","replaces_j":null`, false, 202},
			// the leader's to refuse
			{"a budget over another", `"kind":"budget","energy":"42 kJ","mode":"target","replaces_j":41000`, true, 202},
			{"a preference over a budget not shown", `"kind":"preference","setting":0.5`, true, 409},
			{"a preference over another budget", `"kind":"preference","setting":0.5,"replaces_j":41000`, true, 409},
			{"a preference over the budget", `"kind":"preference","setting":0.5,"replaces_j":45000`, true, 202},
			{"a preference over none", `"kind":"preference","setting":0.5`, false, 202},
			{"a preference over a budget that is over", `"kind":"preference","setting":0.5,"replaces_j":41000`, false, 202},
			{"a hold", `"kind":"mission","action":"hold"`, true, 202},
		} {
			c := startInMemory(t)
			s := exampleStatus(17)
			if !x.inForce {
				s.BudgetJ, s.Mode, s.RemainingJ = nil, nil, nil
			}
			publish(c, topics.Status(), false, s)
			r := c.newBrowser("command as crew-1").command(`"id":"x",` + x.order)
			if r.status != x.status || (len(c.commands()) > 0) != (x.status == 202) ||
				x.status == 409 && !strings.Contains(r.body, "a budget of 45 kJ is in force") {
				t.Errorf("%s: %d %s, sent %q", x.name, r.status, r.body, c.commands())
			}
		}
	})
}

func (b *browser) get(path string) (*http.Response, error) {
	q, _ := http.NewRequestWithContext(b.c.t.Context(), "GET", strings.TrimSuffix(b.c.URL(), "/")+path, nil)
	q.Header.Set("Cookie", b.cookie)
	q.Header.Set("Authorization", "Bearer "+b.secret)
	return b.client.Do(q)
}

// stream opens the event stream, and returns a channel that has its last event when it ends;
// leave ends it from here.
func (b *browser) stream() (ended <-chan string, leave func()) {
	b.c.t.Helper()
	r, err := b.get("/events")
	if err != nil || r.StatusCode != http.StatusOK {
		b.c.t.Fatalf("events: %v %v", r, err)
	}
	done := make(chan string, 1)
	go func() {
		last := ""
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			last = cmp.Or(lines.Text(), last)
		}
		r.Body.Close()
		done <- last
	}()
	return done, func() { r.Body.Close() }
}

// streamEnds waits for a stream's end, and checks whether the page was told that another has its place.
func (b *browser) streamEnds(what string, ended <-chan string, replaced bool) {
	b.c.t.Helper()
	select {
	case last := <-ended:
		if (last == `data: {"replaced":true}`) != replaced {
			b.c.t.Errorf("%s: the last event is %.80q", what, last)
		}
	case <-time.After(testTimeout):
		b.c.t.Errorf("%s: its stream does not end", what)
	}
}

// A page is shown nothing any more when its cookie is over.
func TestStreamEndsWithSession(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		publish(c, topics.Status(), false, exampleStatus(17))
		b := c.newBrowser("command as crew-1")
		ended, _ := b.stream()
		if r := b.post("/alive", "{}"); r.status != 204 {
			t.Errorf("alive: %d", r.status)
		}
		c.advance(sessionLasts + time.Second)
		b.streamEnds("a day later", ended, false)
	})
}

// Who reads nothing is dropped, with a cookie or without one, and leaves its place; who does not
// end a request is too.
func TestSlowReaders(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := startInMemory(t)
		connect := func(request string) net.Conn {
			t.Helper()
			conn := c.connect()
			conn.SetDeadline(time.Now().Add(testTimeout))
			io.WriteString(conn, request)
			return conn
		}
		halted := connect("GET / HTTP/1.1\r\nHost: ")
		dropped := func(conn net.Conn, text string) { // a write to what the server closed is an error, a while after it did
			t.Helper()
			for {
				_, err := io.WriteString(conn, text)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("it is not dropped after %v", testTimeout)
				}
				if err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
		request := "GET /uplot.js HTTP/1.1\r\nHost: " + c.hosts[0] + "\r\n\r\n"
		dropped(connect(strings.Repeat(request, 300)), request)

		b := c.newBrowser("watch")
		connect("GET /events?secret=" + b.secret + " HTTP/1.1\r\nHost: " + c.hosts[0] + "\r\nCookie: " + b.cookie + "\r\n\r\n")
		session := c.sessions()[0]
		await := func(watched bool, doing func(i int)) {
			t.Helper()
			until := time.Now().Add(testTimeout)
			for i := 0; c.access.watched(session, "f1") != watched; i++ {
				if time.Now().After(until) {
					t.Fatalf("never: watched %v", watched)
				}
				doing(i)
				time.Sleep(20 * time.Millisecond)
			}
		}
		await(true, func(int) {})
		for i := range maxUsers {
			publish(c, topics.Report(fmt.Sprintf("%064d", i)), false, telemetry.Report{PositionM: [2]float64{312, 844}, CPUHz: 1e9})
		}
		await(false, func(i int) { publish(c, topics.Status(), false, exampleStatus(i)) })
		if _, err := io.ReadAll(halted); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("half a request holds its place")
		}
	})
}

// live is a console by the wall clock, as browsers have no other.
func live(c *console) { c.Server.Clock = time.Now }
