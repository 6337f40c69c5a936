package serve

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// limitedListener keeps at most maxConns connections, beside those of operators, which are never
// ended for others. When all places are taken a newcomer has that of the oldest connection of the
// address that has most: idle connections keep nobody out.
type limitedListener struct {
	net.Listener
	mutex sync.Mutex
	open  []*limitedConn // the oldest first
}

type limitedConn struct {
	net.Conn
	listener *limitedListener
	address  string
	operator atomic.Bool // an operator's request came over it
}

func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	address, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	c := &limitedConn{Conn: conn, listener: l, address: address}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.makeRoom()
	l.open = append(l.open, c)
	return c, nil
}

// makeRoom ends a connection if all places are taken. The mutex is held.
func (l *limitedListener) makeRoom() {
	taken, count := 0, map[string]int{}
	var oldest *limitedConn
	for _, x := range slices.Backward(l.open) {
		if x.operator.Load() {
			continue
		}
		taken++
		count[x.address]++
		if oldest == nil || count[x.address] >= count[oldest.address] {
			oldest = x
		}
	}
	if taken >= maxConns {
		l.open = slices.DeleteFunc(l.open, func(x *limitedConn) bool { return x == oldest })
		oldest.Conn.Close()
	}
}

func (c *limitedConn) Close() error {
	c.listener.mutex.Lock()
	c.listener.open = slices.DeleteFunc(c.listener.open, func(x *limitedConn) bool { return x == c })
	c.listener.mutex.Unlock()
	return c.Conn.Close()
}

type connKey struct{}

// withConn makes a request's connection known to its handler.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if over, is := c.(*tls.Conn); is {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// markOperator is for the connection of an operator's request.
func markOperator(ctx context.Context) {
	if c, is := ctx.Value(connKey{}).(*limitedConn); is {
		c.operator.Store(true)
	}
}
