// Package listen ends the embedded MQTT server without its own way to do so:
// mochi's Server.Close (v2.7.9) reads its list of clients under a lock that it
// takes twice (Clients.GetByListener calls Clients.Len), and waits for ever when a
// client leaves between the two.
package listen

import (
	"net"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
)

// Server is an MQTT server on one listener.
type Server struct {
	*mqtt.Server
	connections *connections
}

const id = "only"

// Serve has a server, which has its hooks, take connections from l.
func Serve(server *mqtt.Server, l net.Listener) (*Server, error) {
	c := &connections{Listener: l, open: map[net.Conn]bool{}}
	if err := server.AddListener(listeners.NewNet(id, c)); err != nil {
		return nil, err
	}
	return &Server{server, c}, server.Serve()
}

// Close ends all connections, those being made included, and then the server.
func (s *Server) Close() {
	s.connections.Close()
	s.Server.Listeners.Delete(id) // or Close would look for its clients
	s.Server.Close()              // waits for those that are leaving
}

// connections is a listener that knows what it accepted.
type connections struct {
	net.Listener

	mutex  sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func (c *connections) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &connection{accepted, c}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		accepted.Close()
		return nil, net.ErrClosed
	}
	c.open[conn] = true
	return conn, nil
}

func (c *connections) Close() error {
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

type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mutex.Lock()
	delete(c.of.open, c)
	c.of.mutex.Unlock()
	return c.Conn.Close()
}
