package task

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"prefdt/telemetry"
)

// Request asks a worker to compute. HeaderSize bytes go before the input, written by
// themselves: a TLS record of 16 KiB would delay them.
type Request struct {
	Slot     int
	Function string
	Grant    []byte   // nil: by the standing offer, as the user that the certificate names
	Digest   [12]byte // of the function, by the standing offer; zeros: any
	Bytes    int      // of input, which follow; one that is read has at most MaxBytes+1, whatever the size of an int
}

// HeaderSize is the number of bytes of a request's header.
const HeaderSize = 132

// MaxBytes is the most input of a request, and the most output of an answer.
const MaxBytes = 1 << 26

// Append appends the header.
func (r *Request) Append(dst []byte) []byte {
	var h [HeaderSize]byte
	binary.LittleEndian.PutUint32(h[0:], uint32(r.Bytes))
	binary.LittleEndian.PutUint32(h[4:], uint32(r.Slot))
	h[8], h[9] = requestVersion, byte(copy(h[12:76], r.Function))
	if r.Grant != nil {
		h[10] = 1
		copy(h[76:], r.Grant)
	} else {
		copy(h[76:], r.Digest[:])
	}
	return append(dst, h[:]...)
}

// requestVersion tells a later layout apart.
const requestVersion = 1

// ParseRequest reads a header.
func ParseRequest(h *[HeaderSize]byte) (r Request, err error) {
	name := int(h[9])
	if h[8] != requestVersion || name > 64 || h[10] > 1 || !telemetry.ValidID(string(h[12:12+name])) {
		return r, fmt.Errorf("not the header of a request")
	}
	// Where an int has 32 bits, four bytes as they came could be a negative length.
	r.Bytes = int(min(binary.LittleEndian.Uint32(h[0:]), MaxBytes+1))
	r.Slot = int(min(binary.LittleEndian.Uint32(h[4:]), math.MaxInt32))
	r.Function = string(h[12 : 12+name])
	if h[10] == 1 {
		r.Grant = append([]byte(nil), h[76:HeaderSize]...)
	} else {
		copy(r.Digest[:], h[76:])
	}
	return r, nil
}

// Status is how a request ended.
type Status uint32

// The values of a status. From Refused on the input was not read to its end, and the
// connection is closed; the others leave it open.
const (
	OK       Status = iota
	Failed          // the function did not compute it
	Stopped         // it took over four times what was granted
	Busy            // the worker has no room for it now, or computes another of the same user
	Refused         // no such request
	Forged          // the grant is not of this aircraft's key
	Expired         // the grant or offer is not of this slot or the two before
	Replayed        // it was used
	Foreign         // the grant is another mission's, aircraft's or user's
	Function        // no such function, or the grant is for another program
	Oversize        // more bytes than granted
	NoOffer         // no offer of this slot, or no certificate of a user
)

var statusTexts = [...]string{
	"computed", "the function failed", "stopped at four times what was granted", "busy", "not a request",
	"the grant is not of this aircraft's key",
	"the grant or offer has expired", "the grant or offer was used", "the grant is another's", "no such function, or another program",
	"more bytes than granted", "no offer, or no user's certificate",
}

func (s Status) String() string {
	if int(s) < len(statusTexts) {
		return statusTexts[s]
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// Answer ends a request.
type Answer struct {
	Status Status
	EdgeNS uint64 // from the input's last byte to the output's
	Output []byte
}

// answerSize is the number of bytes before an answer's output.
const answerSize = 16

// Append appends the answer.
func (a *Answer) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(a.Status))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(a.Output)))
	dst = binary.LittleEndian.AppendUint64(dst, a.EdgeNS)
	return append(dst, a.Output...)
}

// ReadAnswer reads an answer of at most so many bytes of output.
func ReadAnswer(r io.Reader, most int) (a Answer, err error) {
	var h [answerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return a, fmt.Errorf("answer: %w", err)
	}
	a.Status, a.EdgeNS = Status(binary.LittleEndian.Uint32(h[0:])), binary.LittleEndian.Uint64(h[8:])
	n := binary.LittleEndian.Uint32(h[4:])
	if uint64(n) > uint64(most) {
		return a, fmt.Errorf("answer: %d bytes of output, at most %d", n, most)
	}
	a.Output = make([]byte, n)
	if _, err := io.ReadFull(r, a.Output); err != nil {
		return a, fmt.Errorf("answer: %w", err)
	}
	return a, nil
}
