// Package serve is a worker's door: users' connections, what they ask for, and which of it
// is computed.
//
// Inputs: TCP connections with TLS 1.3, requests with grants or by the standing offer, the
// leader's beacons and statuses. Outputs: answers, and counts for the heartbeat. The program
// worker starts it; package share computes.
//
// Nothing is read before it is known to be allowed: a header has a fixed size, the input
// at most as many bytes as were granted, and every step an end in time.
package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"prefdt/firmware/worker/executor"
	"prefdt/firmware/worker/share"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
	"prefdt/telemetry/task"
)

// Function is one function that users may name.
type Function struct {
	ID        string
	Digest    string // SHA-256 of its program, in hexadecimal
	Function  *share.Function
	Scheduler *share.Scheduler
}

// Limits bound what users can take, of the worker as a whole and each address.
type Limits struct {
	Connections           int
	ConnectionsPerAddress int
	NewPerAddress         float64 // connections a second
	Handshakes            int     // that compute at once; one that waits for its other end is none of them
	Idle                  time.Duration
	Transfer              time.Duration // of a handshake, an input, an answer
	InputBytes            int64         // of all inputs at once
}

// DefaultLimits are for a few hundred users.
func DefaultLimits() Limits {
	return Limits{
		Connections: 1024, ConnectionsPerAddress: 64, NewPerAddress: 20, Handshakes: 4,
		Idle: 2 * time.Minute, Transfer: 3 * time.Second, InputBytes: 64 << 20,
	}
}

// Server serves users. Set the exported fields, then Start.
type Server struct {
	Fleet      string
	Aircraft   int
	Key        *task.Key // grants are verified with; nil: by the standing offer alone
	TLS        *tls.Config
	Functions  []Function
	OfferBytes int
	Limits     Limits
	Log        *slog.Logger

	admission  *admission
	functions  map[string]*served
	listener   net.Listener
	handshakes chan struct{}
	inputBytes atomic.Int64
	refused    atomic.Int64
	addresses  addresses
	done       sync.WaitGroup
	mutex      sync.Mutex
	open       map[net.Conn]struct{} // nil: closed
	computing  map[string]struct{}   // users with a task in progress
}

// served is a function with its digest as grants have it.
type served struct {
	Function
	hash [12]byte
}

// Start serves what a listener accepts, until Close.
func (s *Server) Start(l net.Listener) error {
	s.admission = newAdmission(s.Fleet, s.Aircraft, s.Key, s.OfferBytes)
	s.functions = map[string]*served{}
	for _, f := range s.Functions {
		hash, err := task.FunctionHash(f.Digest)
		if err != nil {
			return err
		}
		s.functions[f.ID] = &served{f, hash}
	}
	s.listener, s.open, s.computing = l, map[net.Conn]struct{}{}, map[string]struct{}{}
	s.handshakes = make(chan struct{}, s.Limits.Handshakes)
	s.addresses = addresses{most: s.Limits.ConnectionsPerAddress, perSecond: s.Limits.NewPerAddress, of: map[string]*address{}}
	s.done.Go(s.accept)
	return nil
}

// OpenSlot takes a beacon.
func (s *Server) OpenSlot(b telemetry.Slot) { s.admission.openSlot(b) }

// SetMission takes the mission of a status that was just published, and whether it is in its
// slots, or was.
func (s *Server) SetMission(mission string, inSlots bool) { s.admission.setMission(mission, inSlots) }

// Refused is how many requests and connections were refused.
func (s *Server) Refused() int64 { return s.refused.Load() }

// Address is where it listens.
func (s *Server) Address() net.Addr { return s.listener.Addr() }

// Close ends all connections.
func (s *Server) Close() {
	s.listener.Close()
	s.mutex.Lock()
	for c := range s.open {
		c.Close()
	}
	s.open = nil
	s.mutex.Unlock()
	s.done.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no file descriptor is free, or the like
			time.Sleep(10 * time.Millisecond)
			continue
		}
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		if !s.addresses.enter(host, time.Now()) || !s.keep(c) {
			s.refused.Add(1)
			c.Close()
			continue
		}
		s.done.Go(func() {
			s.guard(c)
			c.Close()
			s.mutex.Lock()
			delete(s.open, c)
			s.mutex.Unlock()
			s.addresses.leave(host)
		})
	}
}

// keep enters a connection, if there is room.
func (s *Server) keep(c net.Conn) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.open == nil || len(s.open) >= s.Limits.Connections {
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		s.addresses.leave(host)
		return false
	}
	s.open[c] = struct{}{}
	return true
}

// guard serves one connection. What goes wrong in it ends no other.
func (s *Server) guard(c net.Conn) {
	defer func() {
		if reason := recover(); reason != nil {
			s.refused.Add(1)
			s.Log.Error("connection", "panic", reason, "stack", string(debug.Stack()))
		}
	}()
	s.serve(c)
}

// connection is one of a user, with what it has sent and nobody has read.
type connection struct {
	*tls.Conn
	in *bufio.Reader
}

// serve answers the requests of one connection.
func (s *Server) serve(raw net.Conn) {
	turns := &turnTaker{Conn: raw, turns: s.handshakes}
	c := connection{Conn: tls.Server(turns, s.TLS)}
	user, err := s.handshake(c.Conn, turns)
	if err != nil {
		s.refused.Add(1)
		return
	}
	c.in = bufio.NewReaderSize(c.Conn, 1024)
	var header [task.HeaderSize]byte
	for {
		c.SetReadDeadline(time.Now().Add(s.Limits.Idle))
		if _, err := c.in.Peek(1); err != nil {
			return
		}
		c.SetReadDeadline(time.Now().Add(s.Limits.Transfer))
		if _, err := io.ReadFull(c.in, header[:]); err != nil {
			s.refused.Add(1)
			return
		}
		a := s.request(c, &header, user)
		if a.Status >= task.Busy {
			s.refused.Add(1)
		}
		if a.Status == unread {
			return
		}
		c.SetWriteDeadline(time.Now().Add(s.Limits.Transfer))
		if _, err := c.Write(a.Append(nil)); err != nil {
			return
		}
		if a.Status >= task.Refused {
			s.drain(c)
			return
		}
	}
}

// unread is the status of an input that did not come: there is nobody to answer.
const unread = task.Status(1 << 31)

// turnTaker is a connection in its handshake: it takes turns with the others while it computes, and waits for its other end without one.
type turnTaker struct {
	net.Conn
	turns chan struct{} // nil: it takes none any more
}

func (t *turnTaker) Read(b []byte) (int, error) {
	if t.turns == nil {
		return t.Conn.Read(b)
	}
	<-t.turns
	n, err := t.Conn.Read(b)
	t.turns <- struct{}{}
	return n, err
}

// handshake returns the user that a certificate names, or "".
func (s *Server) handshake(c *tls.Conn, turns *turnTaker) (user string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Limits.Transfer)
	defer cancel()
	turns.turns <- struct{}{}
	err = c.HandshakeContext(ctx)
	<-turns.turns
	turns.turns = nil
	if err != nil {
		return "", err
	}
	if chains := c.ConnectionState().VerifiedChains; len(chains) > 0 {
		subject := chains[0][0].Subject
		if len(subject.OrganizationalUnit) == 1 && subject.OrganizationalUnit[0] == access.RoleUser &&
			telemetry.ValidID(subject.CommonName) {
			return subject.CommonName, nil
		}
	}
	return "", nil
}

// drain reads what is still coming, so that the answer is not lost with a reset.
func (s *Server) drain(c connection) {
	c.CloseWrite()
	c.SetReadDeadline(time.Now().Add(s.Limits.Transfer / 3))
	io.Copy(io.Discard, io.LimitReader(c.NetConn(), 1<<20))
}

// request reads and computes one request.
func (s *Server) request(c connection, header *[task.HeaderSize]byte, user string) task.Answer {
	r, err := task.ParseRequest(header)
	if err != nil {
		return task.Answer{Status: task.Refused}
	}
	f := s.functions[r.Function]
	switch {
	case f == nil:
		return task.Answer{Status: task.Function}
	case r.Bytes > task.MaxBytes:
		return task.Answer{Status: task.Oversize}
	}
	weight, status := s.admission.admit(&r, f.hash, user)
	if status != task.OK {
		return task.Answer{Status: status}
	}
	defer s.inputBytes.Add(int64(-r.Bytes))
	if s.inputBytes.Add(int64(r.Bytes)) > s.Limits.InputBytes {
		return task.Answer{Status: task.Refused}
	}
	input := make([]byte, r.Bytes)
	c.SetReadDeadline(time.Now().Add(s.Limits.Transfer))
	if _, err := io.ReadFull(c.in, input); err != nil {
		return task.Answer{Status: unread}
	}
	if !s.begin(user) {
		return task.Answer{Status: task.Busy}
	}
	defer s.end(user)
	ctx, stop := c.untilClosed()
	defer stop()
	began := time.Now()
	output, err := f.Scheduler.Run(ctx, f.Function.Function, weight, input)
	a := task.Answer{EdgeNS: uint64(time.Since(began)), Output: output, Status: statusOf(err)}
	if err != nil {
		s.Log.Warn("task", "function", r.Function, "slot", r.Slot, "bytes", r.Bytes, "reason", err)
	}
	return a
}

// begin begins the one task of a user that is computed at a time.
func (s *Server) begin(user string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, computing := s.computing[user]
	s.computing[user] = struct{}{}
	return !computing
}

func (s *Server) end(user string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.computing, user)
}

// untilClosed is done when the other end closes: nobody waits for the output then. stop ends the watch; nothing reads meanwhile.
func (c connection) untilClosed() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c.SetReadDeadline(time.Time{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for { // what it sends meanwhile is no end
			_, err := c.in.Peek(c.in.Buffered() + 1)
			if errors.Is(err, bufio.ErrBufferFull) { // behind so much its end is not seen
				return
			}
			if err != nil {
				cancel()
				return
			}
		}
	}()
	return ctx, func() {
		c.SetReadDeadline(time.Unix(1, 0)) // in the past: it waits no longer
		<-watched
		cancel()
	}
}

func statusOf(err error) task.Status {
	switch {
	case err == nil:
		return task.OK
	case errors.Is(err, share.ErrStopped), errors.Is(err, share.ErrMemory):
		return task.Stopped
	case errors.Is(err, share.ErrBusy), errors.Is(err, share.ErrClosed):
		return task.Busy
	case errors.Is(err, executor.ErrFailed):
		return task.Failed
	}
	return task.Failed
}
