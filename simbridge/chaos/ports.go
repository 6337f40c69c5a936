package chaos

import (
	"fmt"
	"net"
	"os"
	"sync"
)

// ports hands out addresses below the range from which the kernel takes those
// of clients, each once in a run: a leader that is killed finds its own again,
// and missions that fly at once do not meet.
type ports struct {
	mutex sync.Mutex
	next  int
}

const (
	firstPort = 12_000
	lastPort  = 31_999
)

func (p *ports) allocate(network string) (string, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.next == 0 { // runs beside one another begin apart
		p.next = os.Getpid() * 64 % (lastPort - firstPort)
	}
	for range lastPort - firstPort {
		p.next = (p.next + 1) % (lastPort - firstPort)
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+p.next)
		if network == "udp" {
			if l, err := net.ListenPacket("udp4", address); err == nil {
				l.Close()
				return address, nil
			}
		} else if l, err := net.Listen("tcp4", address); err == nil {
			l.Close()
			return address, nil
		}
	}
	return "", fmt.Errorf("no free %s port from %d to %d", network, firstPort, lastPort)
}
