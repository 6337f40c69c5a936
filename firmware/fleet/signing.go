package fleet

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/frame"

	"prefdt/firmware/clock"
)

// signatureUnit is a signature timestamp's unit, counted from signatureEpoch.
const signatureUnit = 10 * time.Microsecond

var signatureEpoch = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

// signatureClock gives out the timestamps of signatures. A receiver takes only a greater
// one than the last, and of a sender that it does not know yet none that is more
// than a minute behind the latest it has seen. So they rise strictly, run with the
// monotonic clock, and start from the latest of what the wall clock says and what
// an autopilot signed with itself:
//   - a wall clock stepped back changes nothing;
//   - one stepped forward, as when a board without a battery gets the time, is
//     followed;
//   - a leader that starts with a clock that is wrong by years, or wrong after a
//     jump forward that it had followed, is right from the first frame on that it
//     hears of an autopilot: that one's own stamps are not behind what it took. Until
//     then its frames may be refused, as those of any new sender would be.
type signatureClock struct {
	clock     clock.Clock
	wall      func() time.Time
	clockBase uint64 // the stamp when clock was 0
	last      uint64
}

// next is the stamp of one frame.
func (s *signatureClock) next() uint64 {
	s.advanceTo(uint64(max(s.wall().Sub(signatureEpoch), 0) / signatureUnit))
	s.last = max(s.last+1, s.clockBase+s.elapsed())
	return s.last
}

// observe takes the stamp of a verified frame in.
func (s *signatureClock) observe(stamp uint64) {
	s.advanceTo(stamp)
	s.last = max(s.last, stamp)
}

func (s *signatureClock) advanceTo(stamp uint64) {
	if now := s.clockBase + s.elapsed(); stamp > now {
		s.clockBase += stamp - now
	}
}

func (s *signatureClock) elapsed() uint64 { return uint64(s.clock.Now() / signatureUnit) }

// ReadKey reads a MAVLink 2 signing key: 64 hexadecimal digits on the first
// line of a file. Anything else is an error: a key that was asked for and cannot
// be used must not end in unsigned frames.
func ReadKey(path string) (*frame.V2Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan()
	raw, err := hex.DecodeString(strings.TrimSpace(lines.Text()))
	if err != nil || len(raw) != 32 || lines.Err() != nil {
		return nil, fmt.Errorf("signing key %s: want 64 hexadecimal digits on its first line", path)
	}
	zero := true
	for _, b := range raw {
		zero = zero && b == 0
	}
	if zero {
		return nil, fmt.Errorf("signing key %s: it is all zeros", path)
	}
	return frame.NewV2Key(raw), nil
}
