// Package mochiserver runs the embedded MQTT server on a listener and closes it without
// the deadlock of mochi's Server.Close (v2.7.9): that one reads its list of clients
// under a lock that it acquires twice (Clients.GetByListener calls Clients.Len), and
// waits for ever when a client disconnects between the two.
//
// Inputs: a configured server and a listener. Output: the running server.
// Callers: simbridge/broker and the tests of telemetry.
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

// Serve has a server, whose hooks are set, accept connections from l.
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
	s.Server.Listeners.Delete(listenerID) // or Close would list its clients
	s.Server.Close()                      // waits for those that disconnect
}

// trackingListener is a listener that closes its connections with itself.
type trackingListener struct {
	net.Listener

	mutex sync.Mutex
	open  map[net.Conn]bool // nil once closed
}

func (c *trackingListener) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &trackedConn{accepted, c}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.open == nil {
		accepted.Close()
		return nil, net.ErrClosed
	}
	c.open[conn] = true
	return conn, nil
}

func (c *trackingListener) Close() error {
	err := c.Listener.Close()
	c.mutex.Lock()
	open := c.open
	c.open = nil
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
