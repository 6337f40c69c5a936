package chaos

import (
	"fmt"
	"net"
	"os"
	"sync"
)

// ports allocates addresses below the kernel's range for clients, each once in a run: a
// restarted leader can bind its own again, and concurrent missions do not collide.
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
	if p.next == 0 { // concurrent runs begin at different ports
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
