package chaos

import (
	"fmt"
	"net"
	"sync"
)

// ports allocates addresses below the kernel's range for clients. A run has a block of its
// own, claimed by a listener on its first port, so that concurrent runs do not collide;
// and a port comes again only after all others, so that a leader can bind its own when it
// is restarted.
type ports struct {
	mutex sync.Mutex
	claim net.Listener // on port first; nil: no block yet
	first int
	next  int
}

const (
	firstPort  = 12_000
	lastPort   = 31_999
	blockPorts = 500
)

func (p *ports) allocate(network string) (string, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for first := firstPort; p.claim == nil && first < lastPort; first += blockPorts {
		p.claim, _ = net.Listen("tcp4", localAddress(first))
		p.first = first
	}
	if p.claim == nil {
		return "", fmt.Errorf("no free block of %d ports from %d to %d", blockPorts, firstPort, lastPort)
	}
	for range blockPorts {
		p.next = p.next%(blockPorts-1) + 1
		address := localAddress(p.first + p.next)
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
	return "", fmt.Errorf("no free %s port from %d to %d", network, p.first, p.first+blockPorts-1)
}

func localAddress(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func (p *ports) close() {
	if p.claim != nil {
		p.claim.Close()
	}
}
