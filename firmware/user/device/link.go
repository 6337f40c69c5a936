package device

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

// link is one warm connection to one worker. A request that fails is not sent again: its part
// is computed on the device.
type link struct {
	address string
	tls     *tls.Config
	dial    func(ctx context.Context, network, address string) (net.Conn, error)

	inFlight atomic.Bool // a request

	busy chan struct{} // full while a request is under way, and while it connects
	conn *tls.Conn     // nil: not connected
}

// Times of a link.
const (
	dialTimeout   = 3 * time.Second
	answerTimeout = 3 * time.Second // by then a grant has expired
)

// answer is what a worker computed.
type answer struct {
	output       []byte
	upload, edge time.Duration
	err          error
}

// open connects in the background, unless it is connected or computes.
func (l *link) open() {
	go func() {
		select {
		case l.busy <- struct{}{}:
			l.connect()
			<-l.busy
		default:
		}
	}()
}

// connect connects if it is not connected. The link is busy.
func (l *link) connect() error {
	if l.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	config := l.tls.Clone()
	config.MinVersion = tls.VersionTLS13
	if config.ServerName == "" {
		host, _, _ := net.SplitHostPort(l.address)
		config.ServerName = telemetry.ServerName(host)
	}
	c, _, err := telemetry.Handshake(ctx, func() (net.Conn, error) { return l.dial(ctx, "tcp", l.address) }, config)
	if err != nil {
		return err
	}
	l.conn = c
	return nil
}

// compute has an input computed. It may wait for the connection, but for no other request: an aircraft that does not answer has one.
func (l *link) compute(ctx context.Context, r *task.Request, input []byte, most int) (a answer) {
	if l == nil {
		return answer{err: errNoWorker}
	}
	if !l.inFlight.CompareAndSwap(false, true) {
		return answer{err: errInFlight}
	}
	defer l.inFlight.Store(false)
	l.busy <- struct{}{}
	defer func() { <-l.busy }()
	warm := l.conn != nil
	began := time.Now()
	a = l.request(ctx, r, input, most, began)
	if a.err != nil && warm && l.conn == nil && time.Since(began) < 20*time.Millisecond { // the worker was started again meanwhile
		began = time.Now()
		a = l.request(ctx, r, input, most, began)
	}
	return a
}

func (l *link) request(ctx context.Context, r *task.Request, input []byte, most int, began time.Time) (a answer) {
	if err := l.connect(); err != nil {
		return answer{err: err}
	}
	c := l.conn
	stop := context.AfterFunc(ctx, func() { c.NetConn().Close() })
	defer stop()
	c.SetDeadline(began.Add(answerTimeout))
	got, err := func() (task.Answer, error) {
		if _, err := c.Write(r.Append(nil)); err != nil {
			return task.Answer{}, err
		}
		if _, err := c.Write(input); err != nil {
			return task.Answer{}, err
		}
		return task.ReadAnswer(c, most)
	}()
	took := time.Since(began)
	if err != nil || got.Status >= task.Refused {
		l.close()
	}
	switch {
	case err != nil:
		return answer{err: err}
	case got.Status != task.OK:
		return answer{err: fmt.Errorf("worker: %s", got.Status)}
	}
	edge := time.Duration(min(got.EdgeNS, uint64(took)))
	return answer{output: got.Output, upload: took - edge, edge: edge}
}

func (l *link) close() {
	if l.conn != nil {
		l.conn.NetConn().Close()
		l.conn = nil
	}
}
