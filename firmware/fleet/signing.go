package fleet

import (
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

// signatureClock issues the timestamps of signatures. A receiver accepts only a greater
// timestamp than the sender's last, and from a new sender none more than a minute
// behind the latest it has received. So timestamps rise strictly, run with the
// monotonic clock, and start from the latest of the wall clock and of the autopilots'
// own timestamps:
//   - a wall clock stepped back changes nothing;
//   - one stepped forward, as when a board without a battery gets the time, is
//     followed;
//   - a leader that starts with a clock that is wrong by years is right from the first
//     frame of an autopilot on: an autopilot's timestamps are not behind those it has
//     accepted. Until then the leader's frames may be refused.
type signatureClock struct {
	clock     clock.Clock
	wall      func() time.Time
	clockBase uint64 // the timestamp when clock was 0
	last      uint64
}

// next returns the timestamp of a new frame.
func (s *signatureClock) next() uint64 {
	s.advanceTo(uint64(max(s.wall().Sub(signatureEpoch), 0) / signatureUnit))
	s.last = max(s.last+1, s.clockBase+s.elapsed())
	return s.last
}

// observe advances the clock to the timestamp of a verified frame.
func (s *signatureClock) observe(timestamp uint64) {
	s.advanceTo(timestamp)
	s.last = max(s.last, timestamp)
}

func (s *signatureClock) advanceTo(timestamp uint64) {
	if now := s.clockBase + s.elapsed(); timestamp > now {
		s.clockBase += timestamp - now
	}
}

func (s *signatureClock) elapsed() uint64 { return uint64(s.clock.Now() / signatureUnit) }

// ReadKey reads a MAVLink 2 signing key: 64 hexadecimal digits on the first
// line of a file. Anything else is an error: a configured key that cannot be used must
// not result in unsigned frames.
func ReadKey(path string) (*frame.V2Key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	raw, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil || len(raw) != 32 {
		return nil, fmt.Errorf("signing key %s: want 64 hexadecimal digits on its first line", path)
	}
	if [32]byte(raw) == ([32]byte{}) {
		return nil, fmt.Errorf("signing key %s: it is all zeros", path)
	}
	return frame.NewV2Key(raw), nil
}
