package fleet

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/frame"
)

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
