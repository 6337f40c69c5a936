// Package mochiserver runs the embedded MQTT server on a listener and closes it without
// two faults of mochi's own listeners (v2.7.9). Server.Close reads its list of clients
// under a lock that it acquires twice, and waits for ever when a client disconnects
// between the two; and it does not wait for a connection that was just accepted.
//
// Inputs: a configured server and a listener. Output: the running server.
// Callers: simbridge/broker and the tests of telemetry.
package mochiserver

import (
	"net"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// Server is an MQTT server on one listener.
type Server struct {
	*mqtt.Server
	listener net.Listener
	running  sync.WaitGroup // accept, and each connection

	mutex sync.Mutex
	open  map[net.Conn]bool // nil once closed
}

// Serve has a server, whose hooks are set, accept connections from l.
func Serve(server *mqtt.Server, l net.Listener) (*Server, error) {
	if err := server.Serve(); err != nil {
		return nil, err
	}
	s := &Server{Server: server, listener: l, open: map[net.Conn]bool{}}
	s.running.Go(s.accept)
	return s, nil
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mutex.Lock()
		if s.open == nil {
			conn.Close()
		} else {
			s.open[conn] = true
			s.running.Go(func() { s.serve(conn) })
		}
		s.mutex.Unlock()
	}
}

func (s *Server) serve(conn net.Conn) {
	s.EstablishConnection("", conn) // until it ends; why it does is for the client to know
	s.mutex.Lock()
	delete(s.open, conn)
	s.mutex.Unlock()
}

// Close ends all connections, those being made included, and then the server.
func (s *Server) Close() {
	s.listener.Close()
	s.mutex.Lock()
	for conn := range s.open {
		conn.Close()
	}
	s.open = nil
	s.mutex.Unlock()
	s.running.Wait()
	s.Server.Close()
}
