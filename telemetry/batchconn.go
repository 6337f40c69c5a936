package telemetry

import (
	"net"
	"sync"
	"time"
)

// writeTimeout is how long the broker may take to read before the connection counts as lost.
const writeTimeout = 3 * time.Second

// maxBatchBytes is how much waits to be sent; a writer of more waits.
const maxBatchBytes = 64 << 10

// batchConn is a connection that sends together what is written while it sends. paho writes
// each message alone: 4,096 decisions were as many system calls, and as many frames on a
// radio link.
type batchConn struct {
	net.Conn
	flushTimeout time.Duration // how long Close may take to send what waits

	mutex   sync.Mutex
	sent    sync.Cond // on mutex, after each batch
	waiting []byte
	spare   []byte // the memory of the batch before
	sending bool
	closing bool
	err     error // why nothing can be sent any more
}

func newBatchConn(conn net.Conn) *batchConn {
	c := &batchConn{Conn: conn, flushTimeout: 250 * time.Millisecond}
	c.sent.L = &c.mutex
	return c
}

// Write returns once p waits to be sent. An error is that of an earlier write.
func (c *batchConn) Write(p []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for len(c.waiting) > maxBatchBytes && c.err == nil {
		c.sent.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.closing { // Close would wait for a writer that goes on
		return 0, net.ErrClosed
	}
	c.waiting = append(c.waiting, p...)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return len(p), nil
}

// send sends what waits until nothing does. A connection that fails is closed, so that its
// reader learns of it.
func (c *batchConn) send() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for len(c.waiting) > 0 && c.err == nil {
		batch := c.waiting
		c.waiting, c.spare = c.spare[:0], nil
		timeout := writeTimeout
		if c.closing {
			timeout = c.flushTimeout
		}
		c.Conn.SetWriteDeadline(time.Now().Add(timeout))
		c.mutex.Unlock()
		_, err := c.Conn.Write(batch)
		c.mutex.Lock()
		if c.spare = batch; err != nil {
			c.err = err
			c.Conn.Close()
		}
		c.sent.Broadcast()
	}
	c.sending = false
	c.sent.Broadcast()
}

// Read returns why nothing can be sent, once that is so: paho takes the error of a closed connection
// for its own doing, and noticed the loss by its ping alone, seconds later.
func (c *batchConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if c.err != nil {
			err = c.err
		}
	}
	return n, err
}

// SetWriteDeadline has no effect: paho sets one for each message, batches have their own.
func (c *batchConn) SetWriteDeadline(time.Time) error { return nil }

// Close sends what waits, if that does not take long, and closes the connection.
func (c *batchConn) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.closing = true
	c.Conn.SetWriteDeadline(time.Now().Add(c.flushTimeout)) // of what is being sent
	for c.sending {
		c.sent.Wait()
	}
	if c.err == nil {
		c.err = net.ErrClosed
	}
	return c.Conn.Close()
}
