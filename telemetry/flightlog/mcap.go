package flightlog

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/foxglove/mcap/go/mcap"
)

// The messages of an MCAP file are JSON. Positions and texts have the schemas that
// Foxglove and Lichtblick draw by themselves (foxglove.LocationFix, PoseInFrame, Log,
// https://docs.foxglove.dev/docs/sdk/schemas); slots and aircraft are plain objects of
// numbers, which PlotJuggler takes as series too.

type timestamp struct {
	Sec  int64 `json:"sec"`
	Nsec int64 `json:"nsec"`
}

type locationFix struct {
	Timestamp              timestamp  `json:"timestamp"`
	FrameID                string     `json:"frame_id"`
	Latitude               float64    `json:"latitude"`
	Longitude              float64    `json:"longitude"`
	Altitude               float64    `json:"altitude"`
	PositionCovariance     [9]float64 `json:"position_covariance"`
	PositionCovarianceType int        `json:"position_covariance_type"` // 0: unknown
}

type vector struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	Z float64 `json:"z"`
}

type quaternion struct {
	vector
	W float64 `json:"w"`
}

type pose struct {
	Position    vector     `json:"position"`
	Orientation quaternion `json:"orientation"`
}

type poseInFrame struct {
	Timestamp timestamp `json:"timestamp"`
	FrameID   string    `json:"frame_id"`
	Pose      pose      `json:"pose"`
}

type logMessage struct {
	Timestamp timestamp `json:"timestamp"`
	Level     int       `json:"level"`
	Message   string    `json:"message"`
	Name      string    `json:"name"`
	File      string    `json:"file"`
	Line      int       `json:"line"`
}

const (
	logInfo    = 2
	logWarning = 3
	localFrame = "origin" // east, north and up of the fleet's origin
)

// mcapWriter adds schemas and channels as they are first used.
type mcapWriter struct {
	*mcap.Writer
	schemas  map[string]uint16
	channels map[string]uint16
	counts   map[string]uint32
}

// WriteMCAP writes one flight. A slot without a time counts from the one before.
func WriteMCAP(w io.Writer, f *Flight) error {
	out, err := mcap.NewWriter(w, &mcap.WriterOptions{IncludeCRC: true, Chunked: true, ChunkSize: 1 << 20,
		Compression: mcap.CompressionZSTD})
	if err != nil {
		return fmt.Errorf("mcap: %w", err)
	}
	x := &mcapWriter{out, map[string]uint16{}, map[string]uint16{}, map[string]uint32{}}
	if err := x.flight(f); err != nil {
		return fmt.Errorf("mcap: %w", err)
	}
	if err := x.Close(); err != nil {
		return fmt.Errorf("mcap: %w", err)
	}
	return nil
}

func (x *mcapWriter) flight(f *Flight) error {
	if err := x.WriteHeader(&mcap.Header{}); err != nil {
		return err
	}
	about := map[string]string{"mission": f.Mission, "state": f.State}
	if p := f.Place; p != nil {
		about["fleet"], about["origin"] = p.Fleet, fmt.Sprintf("%v, %v, %v m", p.Origin.LatitudeDeg, p.Origin.LongitudeDeg, p.Origin.AMSLM)
	}
	if err := x.WriteMetadata(&mcap.Metadata{Name: "mission", Metadata: about}); err != nil {
		return err
	}
	answers := f.Answers()
	times := f.Times()
	for i := range f.Slots {
		s := &f.Slots[i]
		at := timestamp{times[i] / 1000, times[i] % 1000 * 1e6}
		for _, c := range answers[i] {
			level := logInfo
			if !c.Ack.Accepted {
				level = logWarning
			}
			if err := x.message("/commands", "foxglove.Log", at, logMessage{at, level, c.Answer(), c.Ack.Key, "", 0}); err != nil {
				return err
			}
		}
		plain := *s
		plain.Aircraft = nil // each has a topic of its own
		if err := x.message("/slot", "prefdt.Slot", at, plain); err != nil {
			return err
		}
		for _, a := range s.Aircraft {
			topic := "/aircraft/" + strconv.Itoa(a.Number)
			if err := x.message(topic, "prefdt.Aircraft", at, a); err != nil {
				return err
			}
			if a.EastM == nil {
				continue
			}
			p := poseInFrame{at, localFrame, pose{vector{*a.EastM, *a.NorthM, *a.UpM}, quaternion{W: 1}}}
			if err := x.message(topic+"/pose", "foxglove.PoseInFrame", at, p); err != nil {
				return err
			}
			if a.LatitudeDeg == nil {
				continue
			}
			fix := locationFix{Timestamp: at, FrameID: localFrame, Latitude: *a.LatitudeDeg, Longitude: *a.LongitudeDeg, Altitude: *a.AMSLM}
			if err := x.message(topic+"/location", "foxglove.LocationFix", at, fix); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *mcapWriter) message(topic, schema string, at timestamp, v any) error {
	if _, known := x.schemas[schema]; !known {
		id := uint16(len(x.schemas) + 1) // 0 is "no schema"
		if err := x.WriteSchema(&mcap.Schema{ID: id, Name: schema, Encoding: "jsonschema",
			Data: jsonSchema(schema, reflect.TypeOf(v))}); err != nil {
			return err
		}
		x.schemas[schema] = id
	}
	if _, known := x.channels[topic]; !known {
		id := uint16(len(x.channels))
		if err := x.WriteChannel(&mcap.Channel{ID: id, SchemaID: x.schemas[schema], Topic: topic, MessageEncoding: "json"}); err != nil {
			return err
		}
		x.channels[topic] = id
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	nanoseconds := uint64(at.Sec)*1e9 + uint64(at.Nsec)
	x.counts[topic]++
	return x.WriteMessage(&mcap.Message{ChannelID: x.channels[topic], Sequence: x.counts[topic] - 1, LogTime: nanoseconds,
		PublishTime: nanoseconds, Data: data})
}

// clockStepMS is how far the time between two settlements may be off the slots between
// them, beside a tenth of it, before the computer's clock was set meanwhile.
const clockStepMS = 10e3

// Times has each slot's wall-clock time in ms, rising, by the computer's clock as it was at
// the end: a computer without a clock of its own sets it when it finds a network. Slots that
// were missed were settled together with the one after them, and count back from it.
func (f *Flight) Times() []int64 {
	slotMS := 1000.0
	if f.Place != nil {
		slotMS = f.Place.SlotMS
	}
	times := make([]int64, len(f.Slots))
	last := len(times) - 1
	settled, stepMS := last, int64(0) // the settlement that follows; what is added before it
	for i := last; i >= 0; i-- {
		before := func(k int) int64 {
			return times[k] - int64(math.Max(1, slotMS*float64(f.Slots[k].Slot-f.Slots[i].Slot)))
		}
		times[i] = f.Slots[i].UnixMS + stepMS
		switch {
		case i == last:
			continue
		case f.Slots[i].UnixMS == f.Slots[i+1].UnixMS:
			times[i] = before(i + 1)
			continue
		}
		want := before(settled)
		if off := math.Abs(float64(times[i] - want)); off > clockStepMS+0.1*float64(times[settled]-want) {
			stepMS += want - times[i]
			times[i] = want
		}
		if times[i] >= times[i+1] {
			times[i] = before(i + 1)
		}
		settled = i
	}
	if last >= 0 && times[0] < 0 { // nothing recorded the time
		for i, first := 0, times[0]; i <= last; i++ {
			times[i] -= first
		}
	}
	return times
}

// jsonSchema is the JSON Schema of a message. Nothing is null: what is unknown is left out.
func jsonSchema(title string, t reflect.Type) []byte {
	schema := schemaOf(t)
	schema["title"] = title
	raw, err := json.Marshal(schema)
	if err != nil {
		panic(err) // of texts and maps
	}
	return raw
}

func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Array, reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	}
	properties := map[string]any{}
	addProperties(properties, t)
	schema := map[string]any{"type": "object", "properties": properties}
	if t == reflect.TypeFor[timestamp]() {
		schema["title"] = "time" // by which readers know one
	}
	return schema
}

func addProperties(properties map[string]any, t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			addProperties(properties, field.Type)
		case name != "-":
			properties[name] = schemaOf(field.Type)
		}
	}
}
