package telemetry

import (
	"bufio"
	"errors"
	"fmt"
	"net"
)

// maxPacket is what paho gets to see of one MQTT packet, in bytes of its body:
// the longest topic and a payload that is too long to be read. MQTT allows
// 256 MB and paho allocates what the header announces; a stranger's message must
// cost a companion computer neither its memory nor its connection.
const maxPacket = 64<<10 + MaxPayload

// limitedConn is a connection from a broker on which longer publications arrive
// cut short, to be refused as any other bad payload. It follows the framing of
// MQTT 3.1.1 section 2.2: a type byte, then the body's length in seven bits a
// byte, low bits first.
type limitedConn struct {
	net.Conn
	in   *bufio.Reader
	head []byte // of the packet, not read yet
	pass int    // bytes of its body to pass on
	drop int    // and then to drop
}

func limit(conn net.Conn) *limitedConn {
	return &limitedConn{Conn: conn, in: bufio.NewReader(conn)}
}

func (c *limitedConn) Read(p []byte) (int, error) {
	if len(c.head) == 0 && c.pass == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.in.Read(p[:min(len(p), c.pass)])
	c.pass -= n
	return n, err
}

// next reads a packet's header.
func (c *limitedConn) next() error {
	if _, err := c.in.Discard(c.drop); err != nil {
		return err
	}
	c.drop = 0
	kind, err := c.in.ReadByte()
	if err != nil {
		return err
	}
	length := 0
	for shift := 0; ; shift += 7 {
		if shift > 21 {
			return errors.New("the broker sent a packet without an end to its length")
		}
		b, err := c.in.ReadByte()
		if err != nil {
			return err
		}
		length |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			break
		}
	}
	if length > maxPacket {
		const publish = 3
		if kind>>4 != publish {
			return fmt.Errorf("the broker sent a packet of type %d with %d bytes", kind>>4, length)
		}
		c.drop, length = length-maxPacket, maxPacket
	}
	c.pass = length
	c.head = append(c.head[:0], kind)
	for ; length >= 0x80; length >>= 7 {
		c.head = append(c.head, byte(length)|0x80)
	}
	c.head = append(c.head, byte(length))
	return nil
}
