package serve

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// limitedListener keeps at most maxConns connections. When all places are taken a newcomer has
// that of the oldest connection of the address that has most: idle connections keep nobody out.
// Those of operators are never ended for it.
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
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		c := &limitedConn{Conn: conn, listener: l, address: address}
		if l.add(c) {
			return c, nil
		}
		conn.Close()
	}
}

func (l *limitedListener) add(c *limitedConn) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.open) >= maxConns {
		count := map[string]int{}
		var oldest *limitedConn
		for _, x := range slices.Backward(l.open) {
			if x.operator.Load() {
				continue
			}
			count[x.address]++
			if oldest == nil || count[x.address] >= count[oldest.address] {
				oldest = x
			}
		}
		if oldest == nil {
			return false
		}
		l.open = slices.DeleteFunc(l.open, func(x *limitedConn) bool { return x == oldest })
		oldest.Conn.Close()
	}
	l.open = append(l.open, c)
	return true
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
