package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server answers GET /metrics and GET /healthz on the loopback interface. Set
// the exported fields, then Initialize.
type Server struct {
	Port  int                              // 0: the system chooses one
	Page  func(p *Page)                    // writes the page; called on a goroutine of a connection
	Alive func() (alive bool, text string) // for /healthz

	listener    net.Listener
	connections chan struct{} // connections at a time
	done        sync.WaitGroup
}

const (
	maxConnections  = 8
	maxRequestBytes = 8 << 10
	requestTimeout  = 5 * time.Second // for reading one request and writing its answer
)

// Initialize listens and starts to answer.
func (s *Server) Initialize() (err error) {
	if s.listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port)); err != nil {
		return fmt.Errorf("listen for metrics: %w", err)
	}
	s.connections = make(chan struct{}, maxConnections)
	s.done.Go(s.run)
	return nil
}

// Close ends it and waits for the answers in progress.
func (s *Server) Close() {
	s.listener.Close()
	s.done.Wait()
}

func (s *Server) run() {
	for {
		s.connections <- struct{}{}
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, perhaps: try again
			<-s.connections
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.done.Go(func() {
			defer func() { <-s.connections }()
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(requestTimeout))
			s.answer(conn, bufio.NewReader(io.LimitReader(conn, maxRequestBytes)))
		})
	}
}

// answer reads one HTTP/1 request; the connection is closed after the answer.
func (s *Server) answer(w io.Writer, reader *bufio.Reader) {
	status, body, kind := "400 Bad Request", "want GET /metrics or /healthz\n", "text/plain; charset=utf-8"
	r, err := http.ReadRequest(reader)
	switch {
	case err != nil || r.ProtoMajor != 1:
	case r.Method != "GET" && r.Method != "HEAD":
		status = "405 Method Not Allowed"
	case r.URL.Path == "/metrics":
		p := &Page{}
		s.Page(p)
		status, body, kind = "200 OK", p.b.String(), "text/plain; version=0.0.4; charset=utf-8"
	case r.URL.Path == "/healthz":
		alive, text := s.Alive()
		status, body = "200 OK", text+"\n"
		if !alive {
			status = "503 Service Unavailable"
		}
	default:
		status = "404 Not Found"
	}
	fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", status, kind, len(body))
	if err != nil || r.Method != "HEAD" {
		io.WriteString(w, body)
	}
}
