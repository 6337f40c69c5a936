// Package mochiserver ends the embedded MQTT server without its own way to do so:
// mochi's Server.Close (v2.7.9) reads its list of clients under a lock that it
// takes twice (Clients.GetByListener calls Clients.Len), and waits for ever when a
// client leaves between the two.
package mochiserver

import (
	"net"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
)

// Server is an MQTT server on one listener.
type Server struct {
	*mqtt.Server
	listener *trackingListener
}

const listenerID = "only"

// Serve has a server, which has its hooks, take connections from l.
func Serve(server *mqtt.Server, l net.Listener) (*Server, error) {
	c := &trackingListener{Listener: l, open: map[net.Conn]bool{}}
	if err := server.AddListener(listeners.NewNet(listenerID, c)); err != nil {
		return nil, err
	}
	return &Server{server, c}, server.Serve()
}

// Close ends all connections, those being made included, and then the server.
func (s *Server) Close() {
	s.listener.Close()
	s.Server.Listeners.Delete(listenerID) // or Close would look for its clients
	s.Server.Close()                      // waits for those that are leaving
}

// trackingListener is a listener that knows what it accepted.
type trackingListener struct {
	net.Listener

	mutex  sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func (c *trackingListener) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &trackedConn{accepted, c}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		accepted.Close()
		return nil, net.ErrClosed
	}
	c.open[conn] = true
	return conn, nil
}

func (c *trackingListener) Close() error {
	err := c.Listener.Close()
	c.mutex.Lock()
	c.closed = true
	open := c.open
	c.open = map[net.Conn]bool{}
	c.mutex.Unlock()
	for conn := range open {
		conn.Close()
	}
	return err
}

type trackedConn struct {
	net.Conn
	listener *trackingListener
}

func (c *trackedConn) Close() error {
	c.listener.mutex.Lock()
	delete(c.listener.open, c)
	c.listener.mutex.Unlock()
	return c.Conn.Close()
}
