package telemetry

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
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
	header     []byte // of the packet, not passed on yet
	passBytes  int    // bytes of its body to pass on
	dropBytes  int    // bytes after those to drop
}

func newLimitedConn(conn net.Conn, maxPayload int) *limitedConn {
	return &limitedConn{Conn: conn, maxPayload: maxPayload, reader: bufio.NewReaderSize(conn, 64<<10)}
}

func (c *limitedConn) Read(p []byte) (int, error) {
	if len(c.header) == 0 && c.passBytes == 0 {
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
	if length > c.maxPayload {
		const publish = 3
		if kind>>4 != publish {
			return fmt.Errorf("the broker sent a packet of type %d with %d bytes", kind>>4, length)
		}
		topic, err := c.reader.Peek(2)
		if err != nil {
			return err
		}
		before := 2 + int(binary.BigEndian.Uint16(topic))
		if qos := kind >> 1 & 3; qos > 0 {
			before += 2 // the packet's identifier
		}
		c.dropBytes = max(0, length-before-c.maxPayload-1)
		length -= c.dropBytes
	}
	c.passBytes = length
	c.header = binary.AppendUvarint(append(c.header[:0], kind), uint64(length))
	return nil
}
