// Package serve is the crew's console: a web page of one fleet, from the program ground.
//
// Inputs: the fleet's MQTT messages (Handle), and requests of browsers. Outputs: the page,
// which is embedded; server-sent events with the fleet's state and history; and, of pages that
// may command, the commands and the signs of life that an Operator sends on. Signing keys stay
// behind the Operator: a page has a cookie and nothing else. With a Replay the same page shows a
// mission that was flown, and nothing is received or sent.
//
// A browser comes with a link, which has a token that is exchanged once for the cookie. Every
// address but loopback needs TLS. See docs/console.md.
package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"prefdt/telemetry"
	"prefdt/telemetry/command"
	"prefdt/telemetry/flightlog"
)

// Server serves the console of one fleet. Set the exported fields, then Initialize.
type Server struct {
	Listen      string           // host:port; a host that is not loopback needs Certificate
	Certificate *tls.Certificate // nil: HTTP without TLS
	Hosts       []string         // further names, with port, by which browsers reach it
	Fleet       string
	AreaM       [2]float64      // the fence, east and north of the origin
	StaleAfter  time.Duration   // age from which a value of a mission under way is shown as lost
	Leader      *command.Leader // whose statuses are shown; nil: anyone's
	Operators   []*Operator     // who may command; none: pages only watch
	Links       io.Writer       // where links with tokens are written
	Log         *slog.Logger
	Picture     *Picture          // beneath the map; nil: none
	Replay      *flightlog.Flight // shown in place of the fleet, with no Operators; nil: none
	Clock       func() time.Time  // nil: time.Now
	// Open listens at an address; nil: net.Listen
	Open func(network, address string) (net.Listener, error)

	// Fleets are listed in place of a page, and each has its own below its name; of these
	// servers nothing is used that says how they are reached. Operators are those of every fleet,
	// by their names; Send and Heartbeat are each fleet's own.
	Fleets []*Server

	topics   telemetry.Topics
	listed   bool   // among another server's Fleets
	replay   []byte // JSON
	state    state
	access   *access // shared with the Fleets
	listener net.Listener
	http     *http.Server
	hosts    []string        // that a request may name
	ctx      context.Context // of the commands on their way
	cancel   func()
	done     sync.WaitGroup
}

// Operator is someone who may command, known to the leader by a signing key.
type Operator struct {
	Name string // the key's; empty: unsigned
	// Send sends a command until it is answered or ctx ends.
	Send func(ctx context.Context, r command.Request, belowFloor bool) (telemetry.Ack, error)
	// Heartbeat sends one of the crew's heartbeats; leaving withdraws the station.
	Heartbeat func(leaving bool)

	mutex   sync.Mutex
	beat    time.Time // last heartbeat that was sent
	pending [2]int    // commands that wait for their answers: stop, which has places of its own, and the others
}

// reserve takes a place for a command until leave is called; not ok: others wait for their answers.
func (o *Operator) reserve(r command.Request) (leave func(), ok bool) {
	kind := 1
	if r.Mission != nil && r.Mission.Action == telemetry.ActionStop {
		kind = 0
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.pending[kind] >= maxSending {
		return nil, false
	}
	o.pending[kind]++
	return func() {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		o.pending[kind]--
	}, true
}

// Picture is an image of the ground with its place: the corners' metres east and north.
type Picture struct {
	Image []byte
	Type  string     // "image/png"
	AtM   [4]float64 // west, south, east, north
}

// sendLimit is for how long a command may be repeated. One that is older when it arrives from
// a page is not sent at all: what was meant then may be wrong now.
const sendLimit = 5 * time.Second

const (
	maxSending   = 4 // commands of an operator at a time, and as many of stop
	maxBodyBytes = 4 << 10
	maxConns     = 128
	minStreamGap = 200 * time.Millisecond // between two events of a stream
	beatGap      = 900 * time.Millisecond // between two heartbeats of an operator
	liveFor      = 3 * time.Second        // after its last sign of life a page is live
	stallAfter   = 10 * time.Second       // a client that reads nothing for so long is dropped
	fileStall    = 3 * time.Minute        // for what is large, to those who have a cookie
)

// Check returns what is wrong with the fields, without listening.
func (s *Server) Check() error {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return fmt.Errorf("listen %q: want host:port, as in 127.0.0.1:8480", s.Listen)
	}
	if ip := net.ParseIP(host); s.Certificate == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("listen %q: an address that others reach needs -tls-cert and -tls-key", s.Listen)
	}
	if leaf := s.leaf(); leaf != nil && len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		return fmt.Errorf("certificate of %s: for a client; browsers want a server's", leaf.Subject.CommonName)
	}
	if !(s.AreaM[0] > 0 && s.AreaM[0] <= 1e5 && s.AreaM[1] > 0 && s.AreaM[1] <= 1e5) {
		return fmt.Errorf("area %g x %g m: want sides above 0 and at most 100000", s.AreaM[0], s.AreaM[1])
	}
	for i, o := range s.Operators {
		if slices.ContainsFunc(s.Operators[:i], func(x *Operator) bool { return x.Name == o.Name }) {
			return fmt.Errorf("two keys are named %s: a command of one would be signed by the other", o.Name)
		}
	}
	if err := s.checkFleets(); err != nil || s.Replay == nil || s.replay != nil {
		return err
	}
	if len(s.Operators) > 0 {
		return errors.New("a replay has no operators")
	}
	if s.replay, err = composeReplay(s.Replay); err != nil {
		return fmt.Errorf("mission %s: %w", s.Replay.Mission, err)
	}
	return nil
}

// Initialize listens. Messages may come from then on; browsers are answered from Start on.
func (s *Server) Initialize() (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	if s.Clock == nil {
		s.Clock = time.Now
	}
	s.access = &access{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, f := range append([]*Server{s}, s.Fleets...) {
		if len(s.Fleets) == 0 || f != s {
			if f.topics, err = telemetry.NewTopics(f.Fleet); err != nil {
				return err
			}
		}
		f.Clock, f.access, f.listed, f.ctx = s.Clock, s.access, f != s, s.ctx
		f.state.start(s.Clock(), f.StaleAfter)
	}
	open := s.Open
	if open == nil {
		open = net.Listen
	}
	if s.listener, err = open("tcp", s.Listen); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("address %s for browsers is in use by another program, `ss -tulpn` shows which: stop it, or choose another: "+
				"-listen", s.Listen)
		}
		return fmt.Errorf("listen for browsers: %w", err)
	}
	s.hosts = s.allowedHosts()
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // an event stream reads nothing
		WriteTimeout:      stallAfter,       // an event stream has it for each event
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    8 << 10,
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelInfo),
	}
	s.access.secure, s.access.port = s.Certificate != nil, s.port()
	return nil
}

// Start answers browsers, and writes the links.
func (s *Server) Start() {
	serve := s.http.Serve
	if s.Certificate != nil {
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*s.Certificate}, MinVersion: tls.VersionTLS13}
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	s.done.Go(func() {
		if err := serve(&limitedListener{Listener: s.listener}); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("the console ended", "reason", err)
		}
	})
	s.offer(nil)
	for _, o := range s.Operators {
		s.offer(o)
	}
}

// Close withdraws the operators whose pages are live, and ends every connection.
func (s *Server) Close() {
	fleets := append([]*Server{s}, s.Fleets...)
	for _, f := range fleets {
		f.state.close()
	}
	s.cancel()
	s.http.Close()
	s.listener.Close() // without Start nothing else does
	s.done.Wait()
	for _, f := range fleets {
		for _, o := range f.Operators {
			o.mutex.Lock()
			if s.Clock().Sub(o.beat) < liveFor {
				o.Heartbeat(true)
			}
			o.mutex.Unlock()
		}
	}
}

// leaf is the server's own certificate, nil without one.
func (s *Server) leaf() *x509.Certificate {
	if s.Certificate == nil {
		return nil
	}
	leaf, _ := x509.ParseCertificate(s.Certificate.Certificate[0]) // as tls.LoadX509KeyPair did
	return leaf
}

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	return port
}

// URL is the page's address: the certificate's first name, or the listening address.
func (s *Server) URL() string {
	scheme := "http"
	if s.Certificate != nil {
		scheme = "https"
	}
	return scheme + "://" + s.hosts[0] + "/"
}

// allowedHosts are the names by which a request may address the server, so that a page
// whose name was pointed at this address is no page of ours. The first one is for links.
func (s *Server) allowedHosts() (list []string) {
	host, _, _ := net.SplitHostPort(s.Listen)
	var names []string
	if s.Certificate == nil {
		names = []string{host, "127.0.0.1", "localhost", "::1"}
	} else {
		if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
			names = append(names, host)
		}
		if leaf := s.leaf(); leaf != nil {
			names = append(names, leaf.DNSNames...)
			for _, ip := range leaf.IPAddresses {
				names = append(names, ip.String())
			}
		}
	}
	for _, name := range names {
		list = append(list, net.JoinHostPort(name, s.port()))
		if s.Certificate != nil && s.port() == "443" {
			list = append(list, name)
		}
	}
	return slices.Concat(list, s.Hosts, []string{s.listener.Addr().String()})
}

// offer writes a link with a fresh token: for an operator, or for those who watch.
func (s *Server) offer(o *Operator) {
	fmt.Fprintf(s.Links, "%s, once: %s#%s\n", o.role(), s.URL(), s.access.newToken(o, s.Clock()))
}

// role is what a link is for.
func (o *Operator) role() string {
	switch {
	case o == nil:
		return "watch"
	case o.Name == "":
		return "command"
	}
	return "command as " + o.Name
}

// logVisit notes who came or left, where the links are.
func (s *Server) logVisit(r *http.Request, what string) {
	fmt.Fprintf(s.Links, "%s %s, from %s, %s\n", s.Clock().UTC().Format(time.RFC3339), what, r.RemoteAddr,
		telemetry.Printable(r.UserAgent()))
}
