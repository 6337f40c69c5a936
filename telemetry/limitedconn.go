package telemetry

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// limitedConn is a connection to a broker that cuts publications short whose payload is
// longer than maxPayload, to a byte more, so that they are rejected like any other invalid
// payload. MQTT allows 256 MB and paho allocates what the header announces; a message from
// any client must cost a companion computer neither its memory nor its connection. The framing
// is that of MQTT 3.1.1 section 2.2: a type byte, then the body's length in seven bits a byte,
// low bits first; the body of a publication begins with the topic's length and the topic.
type limitedConn struct {
	net.Conn
	maxPayload int
	reader     *bufio.Reader

	floodWindow time.Duration // 0: any number of messages
	flooded     *atomic.Uint64
	windowBegan time.Time
	passed      map[string]int // publications in this window, by topic

	header    []byte // of the packet, not passed on yet
	passBytes int    // bytes of its body to pass on
	dropBytes int    // bytes after those to drop
}

func newLimitedConn(conn net.Conn, maxPayload int, floodWindow time.Duration, flooded *atomic.Uint64) *limitedConn {
	return &limitedConn{
		Conn: conn, maxPayload: maxPayload, reader: bufio.NewReaderSize(conn, 64<<10),
		floodWindow: floodWindow, flooded: flooded, passed: map[string]int{},
	}
}

// maxBurst is how many publications of one topic are passed on in a flood window. The others
// cost no allocation, and so little time that the broker need not drop those of other topics.
const maxBurst = 8

// maxTrackedTopic bounds the memory of a window: no topic of a fleet is longer.
const maxTrackedTopic = 256

func (c *limitedConn) isFlooded(topic []byte) bool {
	if now := time.Now(); now.Sub(c.windowBegan) >= c.floodWindow {
		c.windowBegan = now
		clear(c.passed)
	}
	if c.passed[string(topic)] >= maxBurst {
		c.flooded.Add(1)
		return true
	}
	c.passed[string(topic)]++
	return false
}

func (c *limitedConn) Read(p []byte) (int, error) {
	for len(c.header) == 0 && c.passBytes == 0 { // again after a publication that is dropped whole
		if err := c.readHeader(); err != nil {
			return 0, err
		}
	}
	if len(c.header) > 0 {
		n := copy(p, c.header)
		c.header = c.header[n:]
		return n, nil
	}
	n, err := c.reader.Read(p[:min(len(p), c.passBytes)])
	c.passBytes -= n
	return n, err
}

func (c *limitedConn) readHeader() error {
	if _, err := c.reader.Discard(c.dropBytes); err != nil {
		return err
	}
	c.dropBytes = 0
	kind, err := c.reader.ReadByte()
	if err != nil {
		return err
	}
	length := 0
	for shift := 0; ; shift += 7 {
		if shift > 21 {
			return errors.New("the broker sent a packet without an end to its length")
		}
		b, err := c.reader.ReadByte()
		if err != nil {
			return err
		}
		length |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			break
		}
	}
	const publish = 3
	switch {
	case kind>>4 == publish && (length > c.maxPayload || c.floodWindow > 0):
		keep, err := c.keptBytes(kind>>1&3, length)
		if err != nil {
			return err
		}
		if c.dropBytes, length = length-keep, keep; length == 0 {
			return nil
		}
	case length > c.maxPayload && kind>>4 != publish:
		return fmt.Errorf("the broker sent a packet of type %d with %d bytes", kind>>4, length)
	}
	c.passBytes = length
	c.header = binary.AppendUvarint(append(c.header[:0], kind), uint64(length))
	return nil
}

// keptBytes is how many bytes of a publication's body are passed on: of a longer payload a byte
// too many to be read; of a flood nothing, or where an acknowledgement is due no payload.
func (c *limitedConn) keptBytes(qos byte, length int) (int, error) {
	raw, err := c.reader.Peek(min(2, length))
	if err != nil || len(raw) < 2 {
		return length, err
	}
	topicBytes := int(binary.BigEndian.Uint16(raw))
	beforePayload := 2 + topicBytes
	if qos > 0 {
		beforePayload += 2 // the packet's identifier
	}
	if c.floodWindow > 0 && topicBytes <= maxTrackedTopic && beforePayload <= length {
		raw, err := c.reader.Peek(2 + topicBytes)
		if err != nil {
			return 0, err
		}
		switch {
		case !c.isFlooded(raw[2:]):
		case qos == 0:
			return 0, nil
		default:
			return beforePayload, nil
		}
	}
	return min(length, beforePayload+c.maxPayload+1), nil
}
