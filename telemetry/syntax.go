package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on any payload, so that a hostile one costs little time and memory.
const (
	MaxPayload     = 8 << 10  // bytes
	MaxStatus      = 64 << 10 // bytes of a status or a beacon, which name each aircraft
	maxDepth       = 8        // nested objects and lists
	maxDigits      = 64       // characters of one number
	maxQuoted      = 40       // characters of a value shown in an error
	maxRejectKinds = 256      // kinds that RejectCounter distinguishes
)

// LongestStatus is how many bytes a status of so many aircraft takes at most, with 12 dangers and every action refused.
func LongestStatus(aircraft int) int { return min(900*aircraft+5000, MaxStatus) }

// checkSyntax accepts UTF-8 JSON within the limits, without a key given twice
// in one object. An accepted payload can be scanned without further errors.
func checkSyntax(payload []byte, limit limit) error {
	switch {
	case len(payload) > limit.bytes:
		return fmt.Errorf("%d bytes, at most %d are read", len(payload), limit.bytes)
	case !utf8.Valid(payload):
		return fmt.Errorf("not UTF-8")
	case !json.Valid(payload):
		return fmt.Errorf("not JSON")
	}
	s := scanner{input: payload, mayHold: limit.values}
	return s.check(0)
}

// limit is the size of a kind of payload.
type limit struct{ bytes, values int }

var (
	smallLimit  = limit{MaxPayload, 512} // a budget names 64 packs with three values each
	statusLimit = limit{MaxStatus, 4096}
)

// scanner walks JSON that json.Valid has accepted.
type scanner struct {
	input   []byte
	pos     int
	mayHold int // values that check still accepts
}

// peek returns the first byte of the next token.
func (s *scanner) peek() byte {
	for s.pos < len(s.input) {
		switch c := s.input[s.pos]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// check walks over one value and applies the limits.
func (s *scanner) check(depth int) error {
	if s.mayHold--; s.mayHold < 0 {
		return errors.New("more values than any message has")
	}
	switch c := s.peek(); c {
	case '{', '[':
		if depth == maxDepth {
			return fmt.Errorf("nested deeper than %d", maxDepth)
		}
		s.pos++
		var few [16][]byte
		keys := few[:0]
		for s.peek() != '}' && s.peek() != ']' {
			if c == '{' {
				key := s.stringValue()
				if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
					return fmt.Errorf("key %s twice", quote(string(key)))
				}
				keys = append(keys, key)
			}
			if err := s.check(depth + 1); err != nil {
				return err
			}
		}
		s.pos++
	case '"':
		s.rawToken()
	default:
		if token := s.rawToken(); len(token) > maxDigits {
			return fmt.Errorf("a number of %d characters", len(token))
		}
	}
	return nil
}

// rawToken returns the next string with its quotes, or number, true, false or null.
func (s *scanner) rawToken() []byte {
	quoted := s.peek() == '"'
	start := s.pos
	if !quoted {
		for ; s.pos < len(s.input); s.pos++ {
			if c := s.input[s.pos]; c <= ' ' || c == ',' || c == ':' || c == ']' || c == '}' {
				break
			}
		}
		return s.input[start:s.pos]
	}
	for s.pos++; s.input[s.pos] != '"'; s.pos++ {
		if s.input[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos++
	return s.input[start:s.pos]
}

// stringValue returns the next string's characters, where it has no escapes in the input itself.
func (s *scanner) stringValue() []byte {
	raw := s.rawToken()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var text string
	json.Unmarshal(raw, &text) // cannot fail: json.Valid accepted it
	return []byte(text)
}

func (s *scanner) skip() {
	if c := s.peek(); c != '{' && c != '[' {
		s.rawToken()
		return
	}
	depth := 0
	for {
		switch s.peek() {
		case '{', '[':
			depth++
			s.pos++
		case '}', ']':
			depth--
			s.pos++
		default:
			s.rawToken()
		}
		if depth == 0 {
			return
		}
	}
}

// visible replaces what cannot be seen: controls, and the marks of Unicode that turn the
// direction of what follows, or have no width.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// Printable replaces what is not printable ASCII, and could drive a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// quote is a received value as an error shows it: short, printable, one line.
func quote(text string) string {
	if len(text) > maxQuoted {
		return fmt.Sprintf("%.*q...", maxQuoted, text)
	}
	return fmt.Sprintf("%q", text)
}
