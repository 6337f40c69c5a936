package telemetry

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// wireChannels is the table of topics in docs/wire.md, which asyncapi.yaml has to match.
var wireChannels = []struct {
	channel  string
	address  string
	actions  string // of the leader: send, receive or both
	qos      int
	retained bool
	payloads []string
}{
	{"slot", fleetTemplate.Slot(), "send", 0, false, []string{"slot"}},
	{"report", fleetTemplate.Report("{user}"), "receive", 0, false, []string{"report"}},
	{"decision", fleetTemplate.Decision("{user}"), "send", 1, false, []string{"decision"}},
	{"result", fleetTemplate.Result("{user}"), "receive", 1, false, []string{"result"}},
	{"budget", fleetTemplate.Budget(), "receive", 1, false, []string{"budget", "envelope"}},
	{"preference", fleetTemplate.Preference(), "receive", 1, false, []string{"preference", "envelope"}},
	{"mission", fleetTemplate.Mission(), "receive", 1, false, []string{"mission", "envelope"}},
	{"ack", fleetTemplate.Ack("{command}"), "send", 1, false, []string{"ack"}},
	{"status", fleetTemplate.Status(), "send", 0, true, []string{"status"}},
	{"online", fleetTemplate.Online(), "send", 1, true, []string{"online"}},
	{"heartbeat", fleetTemplate.Heartbeat("{station}"), "receive", 0, false, []string{"heartbeat", "envelope"}},
	{"worker", "prefdt/{fleet}/aircraft/{aircraft}/worker", "receive", 0, false, []string{"worker"}},
	{"hello", fleetTemplate.Hello(), "send receive", 1, false, []string{"hello"}},
	{"proof", fleetTemplate.Proof(), "send receive", 1, false, []string{"envelope"}},
}

var fleetTemplate = Topics{"prefdt/{fleet}/"}

// messageTypes are the Go types of the payloads.
var messageTypes = map[string]reflect.Type{
	"slot": reflect.TypeFor[Slot](), "report": reflect.TypeFor[Report](), "decision": reflect.TypeFor[Decision](),
	"result": reflect.TypeFor[Result](), "budget": reflect.TypeFor[Budget](), "preference": reflect.TypeFor[Preference](),
	"mission": reflect.TypeFor[Mission](), "ack": reflect.TypeFor[Ack](), "status": reflect.TypeFor[Status](),
	"heartbeat": reflect.TypeFor[Heartbeat](), "worker": reflect.TypeFor[Worker](), "hello": reflect.TypeFor[Hello](),
	"proof":    reflect.TypeFor[Proof](),
	"envelope": reflect.TypeFor[Envelope](), "online": reflect.TypeFor[bool](),
}

// The document has every topic, direction, quality of service and field that the
// code has, with the same types, ranges and presence, and nothing else.
func TestAsyncAPIMatchesTheTypes(t *testing.T) {
	raw, err := os.ReadFile("asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	doc = plainValue(t, doc) // numbers as JSON has them
	at := func(path ...string) any {
		v := doc
		for _, p := range path {
			m, _ := v.(map[string]any)
			v = m[p]
		}
		return v
	}
	if at("asyncapi") != "3.0.0" {
		t.Errorf("asyncapi is %v", at("asyncapi"))
	}
	same := func(what string, got, want any) {
		t.Helper()
		if want = plainValue(t, want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %s\nwant %s", what, toJSON(got), toJSON(want))
		}
	}
	var channels, operations []string
	for _, row := range wireChannels {
		channels = append(channels, row.channel)
		same(row.channel+" address", at("channels", row.channel, "address"), row.address)
		messages := map[string]any{}
		var refs []any
		for _, p := range row.payloads {
			messages[p] = map[string]any{"$ref": "#/components/messages/" + p}
			refs = append(refs, map[string]any{"$ref": "#/channels/" + row.channel + "/messages/" + p})
		}
		same(row.channel+" messages", at("channels", row.channel, "messages"), messages)
		parameters := map[string]any{}
		for part := range strings.SplitSeq(row.address, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				name = strings.TrimSuffix(name, "}")
				parameters[name] = map[string]any{"$ref": "#/components/parameters/" + name}
			}
		}
		same(row.channel+" parameters", at("channels", row.channel, "parameters"), parameters)
		for action := range strings.FieldsSeq(row.actions) {
			operation := action + strings.ToUpper(row.channel[:1]) + row.channel[1:]
			operations = append(operations, operation)
			same(operation, stripDescriptions(at("operations", operation)), map[string]any{
				"action": action, "channel": map[string]any{"$ref": "#/channels/" + row.channel}, "messages": refs,
				"bindings": map[string]any{"mqtt": map[string]any{"qos": row.qos, "retain": row.retained, "bindingVersion": "0.2.0"}}})
		}
	}
	same("channels", sortedKeys(at("channels")), sorted(channels))
	same("operations", sortedKeys(at("operations")), sorted(operations))
	var names []string
	for name, goType := range messageTypes {
		names = append(names, name)
		same("message "+name, stripDescriptions(at("components", "messages", name, "payload")),
			map[string]any{"$ref": "#/components/schemas/" + name})
		same("schema "+name, stripDescriptions(at("components", "schemas", name)), schemaOf(shapeOf(goType)))
		if text, _ := at("components", "schemas", name, "description").(string); text == "" {
			t.Errorf("schema %s has no description", name)
		}
		for _, example := range at("components", "messages", name, "examples").([]any) {
			payload, err := json.Marshal(example.(map[string]any)["payload"])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decoders[name](payload); err != nil {
				t.Errorf("example of %s: %v", name, err)
			}
		}
	}
	same("messages", sortedKeys(at("components", "messages")), sorted(names))
	same("schemas", sortedKeys(at("components", "schemas")), sorted(names))
}

// schemaOf is a shape in JSON Schema (draft 7, as AsyncAPI uses it).
func schemaOf(s *shape) map[string]any {
	m := map[string]any{}
	kind := map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number", reflect.String: "string",
		reflect.Struct: "object", reflect.Map: "object", reflect.Slice: "array", reflect.Array: "array"}[s.kind]
	m["type"] = kind
	if s.kind == reflect.Int || s.kind == reflect.Float64 {
		low, high := "minimum", "maximum"
		if s.limits.openLow {
			low = "exclusiveMinimum"
		}
		if s.limits.openHigh {
			high = "exclusiveMaximum"
		}
		m[low], m[high] = s.limits.low, s.limits.high
	}
	switch {
	case s.enum != nil:
		m["enum"] = s.enum
	case s.form != nil:
		m["pattern"] = fmt.Sprintf("^[%s]{%d,%d}$", strings.ReplaceAll(s.form.alphabet, " ", ""), s.form.minLength, s.form.maxLength)
	case s.kind == reflect.String:
		m["maxLength"] = s.max
	}
	if s.nullable {
		m["type"] = []string{kind, "null"}
		if s.enum != nil {
			m["enum"] = []any{}
			for _, e := range s.enum {
				m["enum"] = append(m["enum"].([]any), e)
			}
			m["enum"] = append(m["enum"].([]any), nil)
		}
	}
	switch s.kind {
	case reflect.Slice:
		m["items"], m["maxItems"] = schemaOf(s.elem), s.max
	case reflect.Array:
		m["items"] = schemaOf(s.elem)
		m["minItems"], m["maxItems"] = s.max, s.max
	case reflect.Map:
		m["additionalProperties"], m["propertyNames"] = schemaOf(s.elem), map[string]any{"pattern": "^([1-9]|[1-5][0-9]|6[0-4])$"}
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for _, f := range s.fields {
			field := schemaOf(f.shape)
			if f.optional { // may be absent; null is read as absence, but is not to be sent
				plain := *f.shape
				plain.nullable = false
				field = schemaOf(&plain)
			} else {
				required = append(required, f.name)
			}
			properties[f.name] = field
		}
		m["properties"], m["required"] = properties, required
	}
	return m
}

// stripDescriptions removes what only people read.
func stripDescriptions(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if _, text := e.(string); text && (k == "description" || k == "summary") {
				continue
			}
			out[k] = stripDescriptions(e)
		}
		return out
	case []any:
		for i := range v {
			v[i] = stripDescriptions(v[i])
		}
	}
	return v
}

func plainValue(t *testing.T, v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func sortedKeys(v any) (out any) {
	m, _ := v.(map[string]any)
	list := []string{}
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	raw, _ := json.Marshal(list)
	json.Unmarshal(raw, &out)
	return out
}

func sorted(list []string) []string { slices.Sort(list); return list }

func toJSON(v any) string { raw, _ := json.Marshal(v); return fmt.Sprintf("%.2000s", raw) }
