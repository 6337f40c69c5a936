package telemetry

import (
	"fmt"
	"net"
)

// maxPacket bounds one MQTT packet. MQTT allows 256 MB, and paho allocates what
// the header announces; a companion computer must not lose its memory to that.
const maxPacket = 1 << 20

// limitedConn is a connection whose reads end with an error when a packet is
// announced that is larger than maxPacket. It follows the framing of MQTT 3.1.1
// section 2.2: a type byte, then a length of seven bits a byte, low bits first.
type limitedConn struct {
	net.Conn
	left   int  // bytes of the current packet's body
	length int  // being read
	shift  uint // of its next seven bits; with inType, where in the header we are
	inSize bool // the type byte was read
}

func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for b := p[:n]; len(b) > 0; {
		if c.left > 0 {
			body := min(c.left, len(b))
			c.left -= body
			b = b[body:]
			continue
		}
		if !c.inSize {
			c.inSize, c.length, c.shift = true, 0, 0
		} else {
			c.length |= int(b[0]&0x7f) << c.shift
			c.shift += 7
			if c.length > maxPacket {
				return 0, fmt.Errorf("a packet larger than %d bytes; limit them in the broker (mosquitto: message_size_limit)", maxPacket)
			}
			if b[0]&0x80 == 0 || c.shift > 21 {
				c.left, c.inSize = c.length, false
			}
		}
		b = b[1:]
	}
	return n, err
}
