package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// message is any payload that is a JSON object.
type message interface {
	Slot | Report | Decision | Result | Budget | Preference | Mission | Ack | Status | Heartbeat | Worker | Hello | Proof | Envelope
}

// InvalidError is why a payload was rejected.
type InvalidError struct {
	Kind string // message, field and fault; a small set whatever is received
	Text string // the same with the invalid value
}

func (e *InvalidError) Error() string { return e.Text }

// Each DecodeX returns a checked message, or an [*InvalidError] that names the field
// and the accepted values. Unknown fields are ignored. Beside an error the message
// has nothing but its id, provided the payload was JSON with a usable id: a command
// with an id is answered with a refusal, one without is only counted.

func DecodeSlot(payload []byte) (Slot, error)             { return decode[Slot](payload) }
func DecodeReport(payload []byte) (Report, error)         { return decode[Report](payload) }
func DecodeDecision(payload []byte) (Decision, error)     { return decode[Decision](payload) }
func DecodeResult(payload []byte) (Result, error)         { return decode[Result](payload) }
func DecodeBudget(payload []byte) (Budget, error)         { return decode[Budget](payload) }
func DecodePreference(payload []byte) (Preference, error) { return decode[Preference](payload) }
func DecodeMission(payload []byte) (Mission, error)       { return decode[Mission](payload) }
func DecodeAck(payload []byte) (Ack, error)               { return decode[Ack](payload) }
func DecodeStatus(payload []byte) (Status, error)         { return decode[Status](payload) }
func DecodeHeartbeat(payload []byte) (Heartbeat, error)   { return decode[Heartbeat](payload) }
func DecodeWorker(payload []byte) (Worker, error)         { return decode[Worker](payload) }
func DecodeHello(payload []byte) (Hello, error)           { return decode[Hello](payload) }
func DecodeProof(payload []byte) (Proof, error)           { return decode[Proof](payload) }

// DecodeOnline reads the bare true or false of the online topic.
func DecodeOnline(payload []byte) (bool, error) {
	if text := string(payload); text == "true" || text == "false" {
		return text == "true", nil
	}
	text := payload[:min(len(payload), maxQuoted+1)]
	return false, &InvalidError{"online: type", fmt.Sprintf("online: %s, want true or false", quote(string(text)))}
}

// EncodeOnline is the payload of the online topic.
func EncodeOnline(online bool) []byte { return strconv.AppendBool(nil, online) }

// Encode returns the payload of a message, or an error if a receiver would reject it.
func Encode[T message](v T) ([]byte, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", shapeOf(reflect.TypeFor[T]()).name, err)
	}
	if _, err := decode[T](payload); err != nil {
		return nil, fmt.Errorf("encode %w", err)
	}
	return payload, nil
}

func decode[T message](payload []byte) (v T, err error) {
	s := shapeOf(reflect.TypeFor[T]())
	if err := checkSyntax(payload, s.limit); err != nil {
		return v, &InvalidError{s.name + ": syntax", s.name + ": " + err.Error()}
	}
	d := decoder{scanner: scanner{input: payload}, name: s.name}
	d.value(s, reflect.ValueOf(&v).Elem())
	if d.err == nil {
		if c, ok := any(&v).(interface {
			check() (field, problem string)
		}); ok {
			if f, problem := c.check(); f != "" {
				d.path = []string{f}
				d.fail(problem, "%s", problem)
			}
		}
	}
	if d.err != nil {
		return onlyID(v), d.err
	}
	return v, nil
}

// onlyID returns a message of which the field ID is kept, if its type has one.
func onlyID[T message](v T) (kept T) {
	if id := reflect.ValueOf(v).FieldByName("ID"); id.IsValid() {
		reflect.ValueOf(&kept).Elem().FieldByName("ID").Set(id)
	}
	return kept
}

type decoder struct {
	scanner
	name string
	path []string // of the value being read
	err  error    // the first
}

// fail keeps the first error. Its kind has no value and no list index in it, so
// that hostile payloads cannot make new kinds.
func (d *decoder) fail(kind, format string, args ...any) {
	if d.err != nil {
		return
	}
	at := strings.Join(append([]string{d.name}, d.path...), ".")
	d.err = &InvalidError{Kind: at + ": " + kind, Text: at + ": " + fmt.Sprintf(format, args...)}
}

// value reads the next JSON value into v and always consumes all of it.
func (d *decoder) value(s *shape, v reflect.Value) {
	c := d.peek()
	if c == 'n' && s.nullable {
		d.rawToken()
		return
	}
	if strings.IndexByte(s.starts, c) < 0 {
		start := d.pos
		d.skip()
		d.fail("type", "%s, want %s", quoteRaw(d.input[start:d.pos]), s.noun)
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch s.kind {
	case reflect.Bool:
		d.rawToken()
		v.SetBool(c == 't')
	case reflect.Int, reflect.Float64:
		d.number(s, v)
	case reflect.String:
		d.text(s, v)
	case reflect.Struct:
		d.object(s, v)
	case reflect.Map:
		d.mapping(s, v)
	default:
		d.list(s, v)
	}
}

func (d *decoder) number(s *shape, v reflect.Value) {
	token := d.rawToken()
	x, err := strconv.ParseFloat(string(token), 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		d.fail("non-finite", "%s is not finite", quoteRaw(token))
	case !s.limits.contains(x):
		d.fail("range", "%g is outside %s", x, s.limits.text)
	case s.kind == reflect.Int && x != math.Trunc(x):
		d.fail("type", "%g, want an integer", x)
	case v.CanInt():
		v.SetInt(int64(x))
	case v.CanUint():
		n, err := strconv.ParseUint(string(token), 10, 64)
		if err != nil { // 1e3, which a float64 holds exactly
			n = uint64(x)
		}
		v.SetUint(n)
	default:
		v.SetFloat(x)
	}
}

func (d *decoder) text(s *shape, v reflect.Value) {
	text := string(d.stringValue())
	switch {
	case s.enum != nil && !slices.Contains(s.enum, text):
		d.fail("value", "%s, want one of %s", quote(text), strings.Join(s.enum, ", "))
	case s.form != nil && !s.form.matches(text):
		d.fail("value", "%s, want %s", quote(text), s.form)
	case len(text) > s.max:
		d.fail("length", "%d bytes, at most %d", len(text), s.max)
	case s.shown:
		v.SetString(visible(text))
	default:
		v.SetString(text)
	}
}

func (d *decoder) object(s *shape, v reflect.Value) {
	var seen uint64
	d.pos++
	for d.peek() != '}' {
		key := d.stringValue()
		i := slices.IndexFunc(s.fields, func(f field) bool { return f.name == string(key) })
		if i < 0 {
			d.skip()
			continue
		}
		seen |= 1 << i
		d.path = append(d.path, s.fields[i].name)
		d.value(s.fields[i].shape, v.Field(s.fields[i].index))
		d.path = d.path[:len(d.path)-1]
	}
	d.pos++
	for i, f := range s.fields {
		if seen>>i&1 == 0 && !f.optional {
			d.path = append(d.path, f.name)
			d.fail("missing", "missing")
			d.path = d.path[:len(d.path)-1]
		}
	}
}

func (d *decoder) mapping(s *shape, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	elem := reflect.New(v.Type().Elem()).Elem()
	d.pos++
	for d.peek() != '}' {
		key := d.stringValue()
		n, err := strconv.Atoi(string(key))
		if err != nil || !s.keys.contains(float64(n)) || strconv.Itoa(n) != string(key) {
			d.fail("key", "key %s, want an integer in %s", quote(string(key)), s.keys.text)
		}
		d.value(s.elem, elem)
		m.SetMapIndex(reflect.ValueOf(n), elem)
	}
	d.pos++
	v.Set(m)
}

func (d *decoder) list(s *shape, v reflect.Value) {
	n := 0
	d.pos++
	for ; d.peek() != ']'; n++ {
		switch {
		case n >= s.max:
			d.skip()
		case s.kind == reflect.Array:
			d.value(s.elem, v.Index(n))
		default:
			elem := reflect.New(v.Type().Elem()).Elem()
			d.value(s.elem, elem)
			v.Set(reflect.Append(v, elem))
		}
	}
	d.pos++
	switch {
	case s.kind == reflect.Array && n != s.max:
		d.fail("length", "%d elements, want %d", n, s.max)
	case s.kind == reflect.Slice && n > s.max:
		d.fail("length", "%d elements, at most %d", n, s.max)
	case s.kind == reflect.Slice && n == 0:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // [] is encoded as [] again, not as null
	}
}

// quoteRaw is a raw JSON value as an error shows it.
func quoteRaw(raw []byte) string {
	if len(raw) > maxQuoted {
		raw = append(raw[:maxQuoted:maxQuoted], "..."...)
	}
	return strconv.Quote(string(raw))
}
