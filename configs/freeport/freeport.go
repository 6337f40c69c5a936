// Package freeport finds addresses for programs that are started with one: tests, and
// the benchmark that starts a leader.
//
// Inputs: none. Outputs: loopback ports at which nothing listens, over TCP or UDP. A
// port that the kernel chose and that was closed again may be given to any other
// socket before the program binds it; so these lie below the range that kernels
// choose from, and no process gets one twice.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range: above the ports of services, below Linux's ip_local_port_range.
const first, last = 20000, 32767

var (
	mutex sync.Mutex
	given = map[int]bool{}
)

// Port returns a port.
func Port() (int, error) {
	mutex.Lock()
	defer mutex.Unlock()
	for range 1000 {
		port := first + rand.IntN(last-first+1)
		if !given[port] && free(port) {
			given[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", first, last)
}

// Address returns the loopback address with a port.
func Address() (string, error) {
	port, err := Port()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

func free(port int) bool {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	tcp, err := net.Listen("tcp4", address)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp4", address)
	if err != nil {
		return false
	}
	udp.Close()
	return true
}
