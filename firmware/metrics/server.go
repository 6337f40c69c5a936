package metrics

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Server answers GET /metrics and GET /healthz on the loopback interface. Set
// the exported fields, then Initialize.
type Server struct {
	Port  int                              // 0: the system chooses one
	Page  func(p *Page)                    // writes the page; called on a goroutine of a connection
	Alive func() (alive bool, text string) // for /healthz

	listener net.Listener
	server   http.Server
	done     sync.WaitGroup
}

const (
	maxConnections  = 8 // at a time
	maxRequestBytes = 8 << 10
	requestTimeout  = 5 * time.Second // for reading one request and writing its answer
)

// Initialize listens and starts to answer.
func (s *Server) Initialize() (err error) {
	if s.listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port)); err != nil {
		return fmt.Errorf("listen for metrics: %w", err)
	}
	s.server = http.Server{
		Handler: http.HandlerFunc(s.answer), ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, MaxHeaderBytes: maxRequestBytes,
		ErrorLog: log.New(io.Discard, "", 0), // a client must not fill the log
	}
	s.server.SetKeepAlivesEnabled(false)
	s.done.Go(func() { s.server.Serve(netutil.LimitListener(s.listener, maxConnections)) })
	return nil
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	const usage = "want GET /metrics or /healthz"
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, usage, http.StatusMethodNotAllowed)
	case r.URL.Path == "/metrics":
		p := &Page{}
		s.Page(p)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write(p.b.Bytes())
	case r.URL.Path == "/healthz":
		alive, text := s.Alive()
		if !alive {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, text)
	default:
		http.Error(w, usage, http.StatusNotFound)
	}
}

// Close ends it and waits for the answers in progress.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	s.server.Shutdown(ctx)
	s.done.Wait()
}
