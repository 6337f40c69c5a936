package metrics

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	h := Histogram{Bounds: []float64{0.5, 1, 2}}
	for _, x := range []float64{0.2, 0.5, 0.7, 3, math.NaN()} {
		h.Observe(x)
	}
	var p Page
	p.Gauge("a_joules", "Joules \\ of\nit.", -1.5)
	p.Gauge("b", "By aircraft.", 1, "aircraft", "1", "mode", "OFF\"BOARD\\\n")
	p.Gauge("b", "By aircraft.", math.NaN(), "aircraft", "2", "mode", "")
	p.Counter("c_total", "Counted.", 1e15)
	p.Counters("d_total", "By reason.", "reason", map[string]uint64{"z": 1, "a\xff": 2})
	p.Gauge("e", "Infinite.", math.Inf(1))
	p.Histogram("f_ms", "Time.", &h)
	want := `# HELP a_joules Joules \\ of\nit.
# TYPE a_joules gauge
a_joules -1.5
# HELP b By aircraft.
# TYPE b gauge
b{aircraft="1",mode="OFF\"BOARD\\\n"} 1
b{aircraft="2",mode=""} NaN
# HELP c_total Counted.
# TYPE c_total counter
c_total 1e+15
# HELP d_total By reason.
# TYPE d_total counter
d_total{reason="a?"} 2
d_total{reason="z"} 1
# HELP e Infinite.
# TYPE e gauge
e +Inf
# HELP f_ms Time.
# TYPE f_ms histogram
f_ms_bucket{le="0.5"} 2
f_ms_bucket{le="1"} 3
f_ms_bucket{le="2"} 3
f_ms_bucket{le="+Inf"} 4
f_ms_sum 4.4
f_ms_count 4
`
	if got := p.b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\})? (NaN|[+-]Inf|[-+0-9.e]+))$`)
	for _, l := range strings.Split(strings.TrimSuffix(p.b.String(), "\n"), "\n") {
		if !line.MatchString(l) {
			t.Errorf("not of the format: %q", l)
		}
	}
}

func serve(t *testing.T) (s *Server, alive func(bool)) {
	t.Helper()
	var mutex sync.Mutex
	up := true
	s = &Server{
		Page: func(p *Page) { p.Gauge("up", "Up.", 1) },
		Alive: func() (bool, string) {
			mutex.Lock()
			defer mutex.Unlock()
			return up, fmt.Sprintf("alive %v", up)
		},
	}
	if err := s.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, func(x bool) {
		mutex.Lock()
		defer mutex.Unlock()
		up = x
	}
}

func TestServer(t *testing.T) {
	s, alive := serve(t)
	if !strings.HasPrefix(s.listener.Addr().String(), "127.0.0.1:") {
		t.Errorf("listens on %s", s.listener.Addr().String())
	}
	get := func(method, path string) (int, string, string) {
		t.Helper()
		request, _ := http.NewRequest(method, "http://"+s.listener.Addr().String()+path, nil)
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, r.Header.Get("Content-Type"), string(body)
	}
	for _, c := range []struct {
		method, path string
		alive        bool
		code         int
		body         string
	}{
		{"GET", "/metrics", true, 200, "\nup 1\n"},
		{"GET", "/metrics?x=1", false, 200, "\nup 1\n"},
		{"GET", "/healthz", true, 200, "alive true"},
		{"GET", "/healthz", false, 503, "alive false"},
		{"HEAD", "/healthz", true, 200, ""},
		{"GET", "/", true, 404, ""},
		{"GET", "/metrics/../etc/passwd", true, 404, ""},
		{"POST", "/metrics", true, 405, ""},
	} {
		alive(c.alive)
		code, kind, body := get(c.method, c.path)
		if code != c.code || !strings.Contains(body, c.body) || !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("%s %s: %d, %s, %q", c.method, c.path, code, kind, body)
		}
	}
}

// Whatever a client sends, the next one is answered.
func TestHostileRequests(t *testing.T) {
	s, _ := serve(t)
	for _, text := range []string{
		"", "\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "\x16\x03\x01\x02\x00", strings.Repeat("A", 1<<20),
		"GET / HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 100000), "GET /metrics HTTP/9\r\n\r\n",
	} {
		c, err := net.Dial("tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(c) // a reset counts as a refusal
		c.Close()
		if strings.Contains(string(answer), "200 OK") {
			t.Errorf("%.20q was answered with %q", text, answer)
		}
	}
	r, err := http.Get("http://" + s.listener.Addr().String() + "/healthz")
	if err != nil || r.StatusCode != 200 {
		t.Errorf("afterwards: %v, %v", r, err)
	}
}
