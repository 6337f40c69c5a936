package telemetry

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// shape is the form of a JSON value, from a message's Go type and tags.
type shape struct {
	name string       // the Go type's, in lower case: a message's name in errors and reject kinds
	kind reflect.Kind // Bool, Int, Float64, String, Struct, Slice, Array, Map
	jsonType
	nullable bool
	limits   interval
	keys     interval // of a map
	enum     []string
	form     *textForm
	max      int // elements, of an array exactly so many, or bytes
	shown    bool
	elem     *shape
	fields   []field // of a struct, at most 64
	limit    limit   // of a message
}

// jsonType is the characters with which a value may begin, and its name in errors.
type jsonType struct{ starts, noun string }

var jsonTypes = map[reflect.Kind]jsonType{
	reflect.Bool:    {"tf", "true or false"},
	reflect.Int:     {"-0123456789", "an integer"},
	reflect.Float64: {"-0123456789", "a number"},
	reflect.String:  {`"`, "a string"},
	reflect.Slice:   {"[", "a list"},
	reflect.Array:   {"[", "a list"},
	reflect.Struct:  {"{", "an object"},
	reflect.Map:     {"{", "an object"},
}

type field struct {
	name     string
	index    int
	optional bool
	*shape
}

// textForm is a set of short texts: a number of characters of an alphabet.
type textForm struct {
	alphabet             string // as errors show it: characters and ranges of them
	minLength, maxLength int
	allowed              [256]bool
}

// textForms are the values of the tag match.
var textForms = map[string]*textForm{
	"id":        newTextForm("A-Z a-z 0-9 . _ -", 1, 64),
	"challenge": newTextForm("A-Z a-z 0-9 _ -", 22, 64),   // base64url of 16 bytes or more
	"station":   newTextForm("A-Z a-z 0-9 _ -", 8, 32),    // base64url of 6 bytes or more
	"digest":    newTextForm("0-9 a-f", 64, 64),           // SHA-256 in hexadecimal
	"grant":     newTextForm("A-Z a-z 0-9 + / =", 76, 76), // base64 of 56 bytes
}

func newTextForm(chars string, least, most int) *textForm {
	f := &textForm{alphabet: chars, minLength: least, maxLength: most}
	for part := range strings.SplitSeq(chars, " ") {
		for c := int(part[0]); c <= int(part[len(part)-1]); c++ {
			f.allowed[c] = true
		}
	}
	return f
}

func (f *textForm) matches(text string) bool {
	for i := range len(text) {
		if !f.allowed[text[i]] {
			return false
		}
	}
	return f.minLength <= len(text) && len(text) <= f.maxLength
}

func (f *textForm) String() string {
	if f.minLength == f.maxLength {
		return fmt.Sprintf("%d of %s", f.maxLength, f.alphabet)
	}
	return fmt.Sprintf("%d to %d of %s", f.minLength, f.maxLength, f.alphabet)
}

// interval is a range as messages.go writes it, "(0, 1e12]".
type interval struct {
	text              string
	low, high         float64
	openLow, openHigh bool
}

func (r interval) contains(x float64) bool {
	return (x > r.low || x == r.low && !r.openLow) && (x < r.high || x == r.high && !r.openHigh)
}

// parseInterval panics on a bad tag: that is a mistake in messages.go.
func parseInterval(text string) interval {
	if text == "" {
		return interval{low: -math.MaxFloat64, high: math.MaxFloat64}
	}
	low, high, ok := strings.Cut(text[1:len(text)-1], ", ")
	a, err1 := strconv.ParseFloat(low, 64)
	b, err2 := strconv.ParseFloat(high, 64)
	if !ok || err1 != nil || err2 != nil || a >= b {
		panic("telemetry: bad range tag " + text)
	}
	return interval{text: text, low: a, high: b, openLow: text[0] == '(', openHigh: text[len(text)-1] == ')'}
}

var shapes sync.Map // reflect.Type -> *shape, computed once each

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s, _ := shapes.LoadOrStore(t, newShape(t, ""))
	return s.(*shape)
}

func newShape(t reflect.Type, tag reflect.StructTag) *shape {
	s := &shape{name: strings.ToLower(t.Name()), kind: t.Kind(), max: 200, limit: smallLimit}
	if t == reflect.TypeFor[Status]() || t == reflect.TypeFor[Slot]() {
		s.limit = statusLimit
	}
	s.limits, s.keys = parseInterval(tag.Get("range")), parseInterval(tag.Get("keys"))
	if e := tag.Get("enum"); e != "" {
		s.enum = strings.Split(e, ",")
	}
	if m := tag.Get("match"); m != "" {
		if s.form = textForms[m]; s.form == nil {
			panic("telemetry: bad match tag " + m)
		}
	}
	if m := tag.Get("max"); m != "" {
		s.max, _ = strconv.Atoi(m)
	}
	s.shown = tag.Get("shown") != ""
	switch s.kind {
	case reflect.Pointer:
		s = newShape(t.Elem(), tag)
		s.nullable = true
	case reflect.Int64, reflect.Uint64:
		s.kind = reflect.Int
	case reflect.Slice, reflect.Array, reflect.Map:
		if s.kind == reflect.Array {
			s.max = t.Len()
		}
		s.elem = newShape(t.Elem(), tag)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			value, optional := newShape(f.Type, f.Tag), option == "omitempty"
			value.nullable = value.nullable || optional // some clients write null for an absent field
			s.fields = append(s.fields, field{name, i, optional, value})
		}
	}
	var known bool
	if s.jsonType, known = jsonTypes[s.kind]; !known {
		panic(fmt.Sprintf("telemetry: no shape for %s", t))
	}
	return s
}
