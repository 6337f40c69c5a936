package datagram

import "slices"

// A MAVLink frame begins with one of two bytes, and then has its payload's length
// (mavlink.io, Packet serialization).
const (
	magicV1, magicV2 = 0xFE, 0xFD
	headerBytes      = 3  // by which a frame's length is known
	overheadV1       = 8  // of a frame beside its payload
	overheadV2       = 12 // likewise
	signatureBytes   = 13 // of a signed frame of version 2
	signedFlag       = 0x01
	maxFrameBytes    = overheadV2 + 255 + signatureBytes
)

// frames takes the datagrams of one source apart. A datagram is bytes of its source's
// stream: it holds any number of frames, and may begin or end within one.
type frames struct {
	pieces [][]byte // frames, and what is none, to be read
	rest   []byte   // a frame that has begun
}

// next removes and returns a frame, or bytes that are none, which its reader refuses; nil:
// there is nothing.
func (f *frames) next() (piece []byte) {
	if len(f.pieces) > 0 {
		piece, f.pieces = f.pieces[0], f.pieces[1:]
	}
	return piece
}

// add takes a datagram apart. Where it is whole frames by itself, the end of the frame that
// had begun was lost.
func (f *frames) add(datagram []byte) {
	pieces, rest, whole := split(datagram, true)
	if !whole && len(f.rest) > 0 {
		pieces, rest, _ = split(append(f.rest, datagram...), false)
	}
	f.pieces, f.rest = append(f.pieces, pieces...), slices.Clone(rest)
}

// split takes bytes apart: into frames and what is none, and the rest, a frame that has
// begun. synced is whether a frame is known to begin where they do: elsewhere, what looks
// like one counts only if another, or nothing, follows it. whole is whether all are frames.
func split(b []byte, synced bool) (pieces [][]byte, rest []byte, whole bool) {
	whole = len(b) > 0
	begin, at := 0, 0 // from begin to at there is no frame
	refuse := func() {
		if at > begin {
			pieces, whole = append(pieces, b[begin:min(at, begin+maxFrameBytes)]), false
		}
	}
	for at < len(b) {
		n := frameBytes(b[at:])
		end := at + n
		switch {
		case n < 0 || n > 0 && end < len(b) && !synced && !isMagic(b[end]):
			at, synced = at+1, false
		case n == 0 || end > len(b):
			refuse()
			return pieces, b[at:], false
		default:
			refuse()
			pieces = append(pieces, b[at:end])
			begin, at, synced = end, end, true
		}
	}
	refuse()
	return pieces, nil, whole
}

// frameBytes is the length of the frame that begins with b; 0: more of it is needed, below
// 0: none does.
func frameBytes(b []byte) int {
	switch {
	case !isMagic(b[0]):
		return -1
	case len(b) < headerBytes:
		return 0
	case b[0] == magicV1:
		return int(b[1]) + overheadV1
	case b[2]&signedFlag != 0:
		return int(b[1]) + overheadV2 + signatureBytes
	}
	return int(b[1]) + overheadV2
}

func isMagic(b byte) bool { return b == magicV1 || b == magicV2 }
