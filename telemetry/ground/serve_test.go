package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// console is a page's requests to a running ground serve.
type console struct {
	*http.Client
	t      *testing.T
	url    string
	secret string // of its commands
}

// newConsole is a browser that comes with a link. Each request has a connection of its own: one that
// stands idle stops a bubble's time.
func newConsole(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), url, token string) *console {
	t.Helper()
	jar, _ := cookiejar.New(nil)
	c := &console{&http.Client{Jar: jar, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, t, url, ""}
	c.login(token)
	return c
}

func (c *console) login(token string) {
	c.t.Helper()
	code, text := c.post("login", fmt.Sprintf(`{"token":%q}`, token))
	var got struct{ Secret string }
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != http.StatusOK {
		c.t.Fatalf("login: %d %s", code, text)
	}
	c.secret = got.Secret
}

// events opens the event stream, and returns a function that reads until one contains a text.
func (c *console) events(prefix string) (await func(text string) string) {
	c.t.Helper()
	r, err := c.Get(c.url + prefix + "events?secret=" + c.secret)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { r.Body.Close() })
	lines := bufio.NewReader(r.Body)
	return func(text string) string {
		c.t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				c.t.Fatalf("no event with %q: %v", text, err)
			}
			if strings.Contains(line, text) {
				return line
			}
		}
	}
}

func (c *console) post(path, body string) (code int, text string) {
	c.t.Helper()
	q, err := http.NewRequestWithContext(c.t.Context(), "POST", c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+c.secret)
	r, err := c.Do(q)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	var out strings.Builder
	bufio.NewReader(r.Body).WriteTo(&out)
	return r.StatusCode, out.String()
}

// budget orders one once the page has a status, and returns its id. An order is as old as the
// server says; its events have its time.
func (c *console) budget(prefix, name string) (id string) {
	c.t.Helper()
	await := c.events(prefix)
	var e struct{ T int64 }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(await(`"floor_j":`), "data: ")), &e); err != nil {
		c.t.Fatal(err)
	}
	id = "b-" + name
	if code, text := c.post(prefix+"command", fmt.Sprintf(`{"id":%q,"at":%d,"kind":"budget","energy":"42 kJ","mode":"ceiling",`+
		`"replaces_j":42000}`, id, e.T)); code != http.StatusAccepted {
		c.t.Fatalf("%s: %d %s", name, code, text)
	}
	if text := await(`"id":"` + id); !strings.Contains(text, "budget of 42 kJ (ceiling) accepted from slot 31; the floor is 27.11 kJ") ||
		!strings.Contains(text, "key "+name) {
		c.t.Fatalf("%s: %s", name, text)
	}
	return id
}

var linkPattern = regexp.MustCompile(`(?m)^(watch|command.*), once: (http://\S+/)#([A-Z2-7]{26})$`)

// Two operators command through one ground serve, each with its own key, by the exchange of
// the command line; the heartbeats are those of the page, and its leave withdraws them.
func TestServe(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		first, keys := newCrewKey(t)
		second := filepath.Join(filepath.Dir(first), "crew-2.key")
		line, err := telemetry.NewKey(second)
		if err != nil {
			t.Fatal(err)
		}
		if keys["crew-2"], err = telemetry.ParsePublicKey(line); err != nil {
			t.Fatal(err)
		}
		l := startFakeLeader(t, site, maps.Clone(keys))
		status := exampleStatus(17)
		status.Challenge = l.challenge
		l.fly(t, status)
		heartbeats := listenHeartbeats(t, site)
		ctx, end := context.WithCancel(t.Context())
		out, ended := make(lineWriter, 1000), make(chan int, 1)
		go func() {
			ended <- site.ground().Run(ctx, []string{"serve", "-fleet", "f1", "-broker", site.url, "-listen", "127.0.0.1:0", "-key",
				first + "," + second, "-name", "hut"}, out, out)
		}()
		pages := map[string]*console{}
		var links [][]string
		for range 3 { // before any is used: then another one is written
			m := linkPattern.FindStringSubmatch(strings.TrimSpace(<-out))
			if m == nil {
				t.Fatal("no link")
			}
			links = append(links, m)
		}
		for _, m := range links {
			c := newConsole(t, site.Program("browser").Dial, m[2], m[3])
			pages[m[1]] = c
		}
		for _, name := range []string{"crew-1", "crew-2"} {
			id := pages["command as "+name].budget("", name)
			for got := ""; !strings.Contains(got, `"id":"`+id+`"`); { // after those whose answers came too late
				if got = <-l.applied; !strings.Contains(got, `"energy_j":42000,"mode":"ceiling","replaces_j":42000`) {
					t.Errorf("the leader got %s", got)
				}
			}
			for len(l.receivedCommands) > 0 {
				e, err := telemetry.Verify(topics.Budget(), <-l.receivedCommands, keys)
				if err != nil || e.Key != name {
					t.Errorf("signed by %q, %v", e.Key, err)
				}
			}
		}
		if code, text := pages["watch"].post("command",
			`{"id":"x","at":0,"kind":"mission","action":"stop"}`); code != http.StatusForbidden {
			t.Errorf("a page that watches: %d %s", code, text)
		}
		if len(heartbeats) != 0 {
			t.Error("heartbeats without a page")
		}
		c := pages["command as crew-2"]
		r, err := c.Get(c.url + "events?secret=" + c.secret)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		for seq := int64(1); seq <= 2; seq++ {
			for len(heartbeats) == 0 { // at most one a second
				if code, text := c.post("alive", "{}"); code != http.StatusNoContent {
					t.Fatalf("alive: %d %s", code, text)
				}
				time.Sleep(50 * time.Millisecond)
			}
			if h, station, e := nextHeartbeat(t, heartbeats, keys); station != "hut" || e.Key != "crew-2" || h.Seq != seq || h.Leaving {
				t.Errorf("heartbeat %+v of %s, key %s", h, station, e.Key)
			}
		}
		withdraws(t, end, ended, heartbeats, keys)
	})
}

// withdraws ends a server, whose last heartbeat is one that leaves. Others may have been on
// their way.
func withdraws(t *testing.T, end func(), ended <-chan int, heartbeats <-chan telemetry.Message, keys map[string]ed25519.PublicKey) {
	t.Helper()
	end()
	for {
		if h, _, _ := nextHeartbeat(t, heartbeats, keys); h.Leaving {
			break
		}
	}
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("exit status %d", code)
		}
	case <-time.After(testTimeout):
		t.Error("it did not end")
	}
	if len(heartbeats) > 0 {
		t.Error("a heartbeat after the one that leaves")
	}
}

// Mistakes are found before it listens.
func TestServeBadInput(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"-listen", "0.0.0.0:8480"}, `listen "0.0.0.0:8480": an address that others reach needs -tls-cert and -tls-key`},
		{[]string{"-listen", "8480"}, `listen "8480": want host:port`},
		{[]string{"-tls-cert", "none.crt"}, `-tls-cert "none.crt" and -tls-key ""`},
		{[]string{"-area", "1000"}, `-area "1000": want metres east and north`},
		{[]string{"-area", "0,5"}, "area 0 x 5 m"},
		{[]string{"-picture", "map.png"}, "want FILE,WEST,SOUTH,EAST,NORTH"},
		{[]string{"-picture", "map.svg,0,0,9,9"}, "want a .png or .jpg file"},
		{[]string{"-picture", "map.png,NaN,0,9,9"}, "want FILE,WEST,SOUTH,EAST,NORTH"},
		{[]string{"-picture", "map.png,0,0,9,Inf"}, "want FILE,WEST,SOUTH,EAST,NORTH"},
		{[]string{"-key", "none.key"}, "no such file"},
		{[]string{"-fleet", "a/b"}, `fleet "a/b"`},
		{[]string{"-fleets", "f1,a/b"}, `fleet "a/b"`},
		{[]string{"-fleets", "f1,f2,f1"}, "fleet f1 is named twice"},
		{[]string{"-fleets", "f1,f2", "-fleet", "f1"}, "-fleet with -fleets"},
	} {
		if code, _, stderr := runGround(t, append([]string{"serve"}, x.args...)...); code != 2 || !strings.Contains(stderr, x.want) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: %d %q", x.args, code, stderr)
		}
	}
}

// A link is printed when there is somebody to follow it: not before the broker is reached.
func TestServeWithoutBroker(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		code, stdout, stderr := site.run(t, "serve", "-broker", "tcp://"+site.FreeAddress(), "-listen", "127.0.0.1:0", "-timeout", "0.3")
		if code != 1 || stdout != "" || !strings.Contains(stderr, "unreachable") {
			t.Errorf("%d %q %q", code, stdout, stderr)
		}
	})
}

// One ground serve for two fleets: a command for one is signed for it alone, with the key of the
// operator, and so is the heartbeat.
func TestServeFleets(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		site := newSite(t)
		key, keys := newCrewKey(t)
		l := startFakeLeader(t, site, maps.Clone(keys))
		status := exampleStatus(17)
		status.Challenge = l.challenge
		l.fly(t, status)
		heartbeats := listenHeartbeats(t, site)
		ctx, end := context.WithCancel(t.Context())
		out, ended := make(lineWriter, 1000), make(chan int, 1)
		go func() {
			ended <- site.ground().Run(ctx, []string{"serve", "-fleets", "f0, f1", "-broker", site.url, "-listen", "127.0.0.1:0", "-key",
				key}, out, out)
		}()
		var c *console
		for range 2 {
			m := linkPattern.FindStringSubmatch(strings.TrimSpace(<-out))
			if m == nil {
				t.Fatal("no link")
			}
			if m[1] != "command as crew-1" {
				continue
			}
			c = newConsole(t, site.Program("browser").Dial, m[2], m[3])
		}
		c.budget("f1/", "crew-1")
		r, err := c.Get(c.url + "f1/events?secret=" + c.secret)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if code, text := c.post("f0/alive", "{}"); code != http.StatusConflict {
			t.Errorf("alive of a fleet whose page is not open: %d %s", code, text)
		}
		for len(heartbeats) == 0 {
			if code, text := c.post("f1/alive", "{}"); code != http.StatusNoContent {
				t.Fatalf("alive: %d %s", code, text)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if h, station, e := nextHeartbeat(t, heartbeats, keys); station != "crew-1" || e.Key != "crew-1" || h.Leaving {
			t.Errorf("heartbeat %+v of %s, key %s", h, station, e.Key)
		}
		withdraws(t, end, ended, heartbeats, keys)
	})
}
