package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Limits on any payload, so that a hostile one costs little.
const (
	MaxPayload  = 64 << 10 // bytes
	maxDepth    = 8        // nested objects and lists
	maxMembers  = 256      // fields of one object
	maxDigits   = 64       // characters of one number
	maxQuoted   = 40       // characters of a value shown in an error
	maxRejected = 256      // kinds kept apart by Rejects
)

// checkSyntax accepts UTF-8 JSON within the limits, without a key given twice
// in one object. What passes can be scanned without further errors.
func checkSyntax(payload []byte) error {
	switch {
	case len(payload) > MaxPayload:
		return fmt.Errorf("%d bytes, at most %d are read", len(payload), MaxPayload)
	case !utf8.Valid(payload):
		return fmt.Errorf("not UTF-8")
	case !json.Valid(payload):
		return fmt.Errorf("not JSON")
	}
	s := scanner{b: payload}
	return s.check(0)
}

// scanner walks JSON that json.Valid has accepted.
type scanner struct {
	b []byte
	i int
}

// peek returns the first byte of the next token.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// check walks one value and applies the limits.
func (s *scanner) check(depth int) error {
	switch c := s.peek(); c {
	case '{', '[':
		if depth == maxDepth {
			return fmt.Errorf("nested deeper than %d", maxDepth)
		}
		s.i++
		var keys []string
		for s.peek() != '}' && s.peek() != ']' {
			if c == '{' {
				key := s.str()
				for _, k := range keys {
					if k == key {
						return fmt.Errorf("key %s twice", quote(key))
					}
				}
				if keys = append(keys, key); len(keys) > maxMembers {
					return fmt.Errorf("more than %d fields in one object", maxMembers)
				}
			}
			if err := s.check(depth + 1); err != nil {
				return err
			}
		}
		s.i++
	case '"':
		s.raw()
	default:
		if token := s.raw(); len(token) > maxDigits {
			return fmt.Errorf("a number of %d characters", len(token))
		}
	}
	return nil
}

// raw returns the next string with its quotes, or number, true, false or null.
func (s *scanner) raw() []byte {
	quoted := s.peek() == '"'
	start := s.i
	if !quoted {
		n := bytes.IndexAny(s.b[s.i:], " \t\n\r,:]}")
		if n < 0 {
			n = len(s.b) - s.i
		}
		s.i += n
		return s.b[start:s.i]
	}
	for s.i++; s.b[s.i] != '"'; s.i++ {
		if s.b[s.i] == '\\' {
			s.i++
		}
	}
	s.i++
	return s.b[start:s.i]
}

// str returns the next string's value.
func (s *scanner) str() string {
	raw := s.raw()
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	json.Unmarshal(raw, &text) // cannot fail: json.Valid accepted it
	return text
}

// skip passes over one value.
func (s *scanner) skip() {
	if c := s.peek(); c != '{' && c != '[' {
		s.raw()
		return
	}
	depth := 0
	for {
		switch s.peek() {
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			depth--
			s.i++
		default:
			s.raw()
		}
		if depth == 0 {
			return
		}
	}
}

// quote shows a value from outside in an error: short, printable, one line.
func quote(text string) string {
	if len(text) > maxQuoted {
		return fmt.Sprintf("%.*q...", maxQuoted, text)
	}
	return fmt.Sprintf("%q", text)
}
