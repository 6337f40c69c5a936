package flightlog

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"prefdt/firmware/account"
	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/firmware/height"
	"prefdt/firmware/ledger"
	missions "prefdt/firmware/mission"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

var origin = fleet.Origin{LatitudeDeg: 47.3977, LongitudeDeg: 8.5456, AltitudeM: 488}

// record is a mission of the leader's own types: slot 2 was missed and settled with slot 3,
// aircraft 2 is silent at first, and from slot 4 on a budget is in force.
func record(mission string, slots int) ledger.Flight {
	f := ledger.Flight{State: ledger.State{
		State: missions.State{Mission: mission, Phase: "done"},
		Place: &ledger.Place{Fleet: "demo", SlotMS: 1000, Origin: origin, AreaM: [2]float64{1000, 800}},
	}}
	budget, mode := 42000.0, "target"
	for n := range slots {
		x := float64(n)
		row := account.Row{
			Slot: n, Mission: mission, UnixMS: settledMS(n), DelayS: 2 + x/7, EnergyJ: 270.5 + x, EdgeJ: 3 + x/3,
			PropulsionMultiplier: 1 + x/100,
			PriceSPerJ:           0.01 * x, Reported: 4 + n, Offloaded: n, DecisionMS: 0.1 + x, Missed: n == 2,
		}
		if row.Missed {
			row.UnixMS = settledMS(n + 1)
		}
		status := telemetry.Status{
			Slot: n, Slots: slots, MissionS: x + 1, State: "flying", Setting: 0.25, SpentJ: 270 * (x + 1), FloorJ: 29000 + x,
			TransitJ: 5000, UsersHeard: row.Reported,
			MissedSlots: 1, DecisionMS: row.DecisionMS, EnergySource: "model", Aircraft: []telemetry.StatusAircraft{},
			LastCommand: &telemetry.LastCommand{ID: "start-1", Key: "crew-1", What: "start"},
		}
		if n >= 4 {
			status.BudgetJ, status.Mode, status.RemainingJ, status.PredictedEndJ = &budget, &mode, new(budget-status.SpentJ), new(41990+x)
			status.Scope = telemetry.ScopeLanded
			status.LastCommand = &telemetry.LastCommand{ID: "b1", Slot: 4, What: "budget 42000 J, target"}
		}
		for k := 1; k <= 2; k++ {
			a := account.AircraftRow{
				Number: k, EnergyJ: 135 + x, SpentJ: 135 * (x + 1), Source: energy.Current, ErrorJ: 10 * x,
				EastM: 100*float64(k) + 3*x, NorthM: 900 - 7*x, UpM: 99 + x/9, BootMS: 30000 + 1000*x,
			}
			s := telemetry.StatusAircraft{Number: k, SystemID: k, EnergySource: "current_voltage", SpentJ: a.SpentJ, Reason: "lost"}
			if k == 2 && n == 0 {
				a.BootMS, a.EastM, a.NorthM, a.UpM = 0, 0, 0, 0
			} else {
				s.PositionM, s.SpeedMPS, s.Mode, s.Landed = &[3]float64{a.EastM, a.NorthM, a.UpM}, new(8+x), "OFFBOARD", new(false)
				s.Battery, s.AgeS, s.Reason = new(0.9-x/100), new(x/10), ""
				s.UsableJ, s.ReserveJ, s.LeftAtTouchdownJ = new(50e3-x), new(10e3), new(10e3+x)
			}
			row.Aircraft, status.Aircraft = append(row.Aircraft, a), append(status.Aircraft, s)
		}
		if n%2 == 1 {
			row.Seen = &account.Seen{Believed: account.Believed{WindMPS: &[2]float64{x, -x}, WindSDMPS: 0.5, PowerMultiplier: 1.25}}
		}
		if !row.Missed {
			row.Status = &status
		}
		f.Rows = append(f.Rows, row)
	}
	command := func(id, what, ack string) {
		f.Commands = append(f.Commands, ledger.Command{ID: id, What: what, Mission: mission, Ack: json.RawMessage(ack)})
	}
	command("start-1", "start", `{"id":"start-1","accepted":true,"effective_slot":0,"key":"crew-1","action":"start"}`)
	command("b0", "budget 1 J, target", `{"id":"b0","accepted":false,"reason":"replaces_j is 2","key":"crew-2"}`)
	command("b1", "budget 42000 J, target", `{"id":"b1","accepted":true,"effective_slot":4,"energy_j":42000,"mode":"target",`+
		`"saturated":false,"floor_j":29004}`)
	return f
}

// settledMS is when a slot of record ended.
func settledMS(slot int) int64 { return 1795399428057 + 1000*int64(slot) }

// export is what the leader writes of missions.
func export(t *testing.T, flights ...ledger.Flight) []byte {
	t.Helper()
	raw, err := json.MarshalIndent(flights, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func mustRead(t *testing.T, raw []byte) []Flight {
	t.Helper()
	flights, err := Read(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return flights
}

func zipped(raw []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(raw)
	z.Close()
	return b.Bytes()
}

// fields is a value's JSON as names and values.
func fields(t *testing.T, raw []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// wantSlot has the fields that a slot must have, from the leader's types by hand.
func wantSlot(r *account.Row) map[string]any {
	m := map[string]any{
		"mission": r.Mission, "slot": float64(r.Slot), "unix_ms": float64(r.UnixMS), "energy_j": r.EnergyJ, "edge_j": r.EdgeJ,
		"propulsion_factor": r.PropulsionMultiplier,
		"delay_s":           r.DelayS, "price_s_per_j": r.PriceSPerJ, "users_heard": float64(r.Reported),
		"users_offloaded": float64(r.Offloaded), "decision_ms": r.DecisionMS, "missed": r.Missed,
	}
	if s := r.Status; s != nil {
		for k, v := range map[string]any{
			"state": s.State, "setting": s.Setting, "spent_j": s.SpentJ, "floor_j": s.FloorJ, "saturated": s.Saturated,
			"transit_j": s.TransitJ, "missed_slots": float64(s.MissedSlots), "energy_source": s.EnergySource,
			"scope": cmp.Or(s.Scope, "slots"),
		} {
			m[k] = v
		}
		if s.BudgetJ != nil {
			m["budget_j"], m["mode"], m["predicted_end_j"] = *s.BudgetJ, *s.Mode, *s.PredictedEndJ
		}
	}
	if r.Seen != nil {
		b := r.Seen.Believed
		m["wind_east_mps"], m["wind_north_mps"], m["wind_sd_mps"], m["power_multiplier"] = b.WindMPS[0], b.WindMPS[1], b.WindSDMPS,
			b.PowerMultiplier
	}
	return m
}

// measured is whether a row has an aircraft's place in its slot: not before the first message
// of it, and a slot that was missed has that of the settlement after it.
func measured(r *account.Row, a *account.AircraftRow) bool { return a.BootMS > 0 && !r.Missed }

func wantAircraft(r *account.Row, k int) map[string]any {
	a := r.Aircraft[k]
	m := map[string]any{
		"number": float64(a.Number), "energy_j": a.EnergyJ, "spent_j": a.SpentJ, "error_j": a.ErrorJ, "energy_source": string(a.Source),
	}
	if measured(r, &a) {
		m["boot_ms"], m["east_m"], m["north_m"], m["up_m"] = a.BootMS, a.EastM, a.NorthM, a.UpM
	}
	if r.Status == nil {
		return m
	}
	if s := r.Status.Aircraft[k]; s.PositionM != nil {
		m["speed_mps"], m["mode"], m["landed"], m["battery"], m["age_s"] = *s.SpeedMPS, s.Mode, *s.Landed, *s.Battery, *s.AgeS
		m["usable_j"], m["reserve_j"], m["left_at_touchdown_j"] = *s.UsableJ, *s.ReserveJ, *s.LeftAtTouchdownJ
	} else {
		m["reason"] = s.Reason
	}
	return m
}

// near takes the fields of a geodetic position out of m, if they are those of a place.
func near(t *testing.T, m map[string]any, r *account.Row, k int, latitude, longitude, altitude string) {
	t.Helper()
	a := &r.Aircraft[k]
	if !measured(r, a) {
		return
	}
	got, up := origin.Local(m[latitude].(float64), m[longitude].(float64), height.AboveSea(m[altitude].(float64)))
	if d := got.Sub(physics.Position{EastM: a.EastM, NorthM: a.NorthM}).Norm(); d > 0.01 || math.Abs(float64(up)-a.UpM) > 1e-6 {
		t.Errorf("aircraft %d: %v m off, up %v m, want %v", a.Number, d, up, a.UpM)
	}
	for _, name := range []string{latitude, longitude, altitude} {
		delete(m, name)
	}
}

// filed writes a mission into a ledger, and returns what the ledger has of it and the file
// that the ledger makes.
func filed(t *testing.T, f ledger.Flight) (kept ledger.Flight, path string) {
	t.Helper()
	dir := t.TempDir()
	l, err := ledger.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(l.WriteCommands(f.State, f.Commands), l.WriteRows(f.State, f.Rows), l.WriteFiles()); err != nil {
		t.Fatal(err)
	}
	all, err := l.Flights()
	paths, _ := filepath.Glob(filepath.Join(ledger.FilesPath(dir), "*"))
	if err != nil || len(all) != 1 || len(paths) != 1 {
		t.Fatalf("%d missions, files %q, %v", len(all), paths, err)
	}
	return all[0], paths[0]
}

// Every field of the MCAP of a mission's file is the ledger's.
func TestMCAP(t *testing.T) {
	kept, path := filed(t, record("m-1", 8))
	flights, err := ReadFile(path)
	if err != nil || len(kept.Rows) != 8 {
		t.Fatalf("%d rows, %v", len(kept.Rows), err)
	}
	var b bytes.Buffer
	if err := WriteMCAP(&b, &flights[0]); err != nil {
		t.Fatal(err)
	}
	reader, err := mcap.NewReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	info, err := reader.Info()
	if err != nil || info.Statistics.MessageCount != 8*(1+2*3)-2*3+3 || len(info.MetadataIndexes) != 1 {
		t.Fatalf("%+v, %v", info.Statistics, err)
	}
	messages, err := reader.Messages(mcap.UsingIndex(true))
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]*jsonschema.Schema{}
	seen := map[string]int{}
	for {
		schema, channel, message, err := messages.NextInto(nil)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if channel.MessageEncoding != "json" || schema.Encoding != "jsonschema" {
			t.Fatalf("%+v, %+v", channel, schema)
		}
		if schemas[schema.Name] == nil {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.Data))
			if err != nil {
				t.Fatal(err)
			}
			c := jsonschema.NewCompiler()
			if err := c.AddResource(schema.Name, doc); err != nil {
				t.Fatal(err)
			}
			schemas[schema.Name] = c.MustCompile(schema.Name)
			checkProperties(t, schema.Name, fields(t, schema.Data))
		}
		m := fields(t, message.Data)
		if err := schemas[schema.Name].Validate(m); err != nil {
			t.Errorf("%s: %v", channel.Topic, err)
		}
		sequence := seen[channel.Topic]
		seen[channel.Topic]++
		n := int(int64(message.LogTime)/1e6-settledMS(0)) / 1000
		if channel.Topic == "/commands" {
			want := []string{"start accepted from slot 0 (id start-1, key crew-1)",
				"budget 1 J, target refused: replaces_j is 2 (id b0, key crew-2)",
				"budget 42000 J, target accepted from slot 4 (id b1, unsigned)"}[sequence]
			if m["message"] != want || n != []int{0, 0, 4}[sequence] {
				t.Errorf("command %d in slot %d: %v", sequence, n, m)
			}
			continue
		}
		row := &kept.Rows[n]
		if message.LogTime != uint64(settledMS(n))*1e6 || message.Sequence != uint32(sequence) {
			t.Errorf("%s of slot %d: %+v", channel.Topic, n, message)
		}
		if x, ok := m["timestamp"].(map[string]any); ok && int64(x["sec"].(float64))*1000+int64(x["nsec"].(float64))/1e6 != settledMS(n) {
			t.Errorf("%s of slot %d: %v", channel.Topic, n, m)
		}
		if channel.Topic == "/slot" {
			if want := wantSlot(row); !reflect.DeepEqual(m, want) {
				t.Errorf("slot %d: got %v, want %v", n, m, want)
			}
			continue
		}
		parts := strings.Split(channel.Topic, "/") // "", aircraft, number, what
		number, _ := strconv.Atoi(parts[2])
		a := &row.Aircraft[number-1]
		switch {
		case len(parts) == 3:
			near(t, m, row, number-1, "latitude_deg", "longitude_deg", "amsl_m")
			if want := wantAircraft(row, number-1); !reflect.DeepEqual(m, want) {
				t.Errorf("slot %d, aircraft %d: got %v, want %v", n, number, m, want)
			}
		case parts[3] == "location":
			near(t, m, row, number-1, "latitude", "longitude", "altitude")
		case parts[3] == "pose":
			p := m["pose"].(map[string]any)["position"]
			if want := (map[string]any{"x": a.EastM, "y": a.NorthM, "z": a.UpM}); !reflect.DeepEqual(p, want) {
				t.Errorf("slot %d, aircraft %d: got %v, want %v", n, number, p, want)
			}
		default:
			t.Errorf("topic %s", channel.Topic)
		}
	}
	if len(seen) != 8 || seen["/slot"] != 8 || seen["/aircraft/1/location"] != 7 || seen["/aircraft/2/location"] != 6 ||
		seen["/aircraft/2/pose"] != 6 || seen["/aircraft/2"] != 8 || seen["/commands"] != 3 {
		t.Errorf("%v", seen)
	}
}

// checkProperties checks that a schema names each property with a single type: readers of
// MCAP know no others.
func checkProperties(t *testing.T, name string, schema map[string]any) {
	t.Helper()
	if _, ok := schema["type"].(string); !ok {
		t.Errorf("%s: %v", name, schema)
	}
	properties, _ := schema["properties"].(map[string]any)
	for k, v := range properties {
		checkProperties(t, name+"."+k, v.(map[string]any))
	}
	if items, ok := schema["items"].(map[string]any); ok {
		checkProperties(t, name+"[]", items)
	}
	if schema["type"] == "object" && len(properties) == 0 {
		t.Errorf("%s has no properties", name)
	}
}

func TestTables(t *testing.T) {
	first, second := record("m-1", 6), record("m-2", 4)
	second.Rows[1].Aircraft = nil
	second.Rows[1].Status.Aircraft = []telemetry.StatusAircraft{}
	flights := mustRead(t, export(t, first, second))
	rows := append(append([]account.Row{}, first.Rows...), second.Rows...)

	var b bytes.Buffer
	if err := WriteJSON(&b, flights); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i := range rows {
		m := fields(t, []byte(lines[i]))
		list, _ := m["aircraft"].([]any)
		delete(m, "aircraft")
		if want := wantSlot(&rows[i]); !reflect.DeepEqual(m, want) {
			t.Errorf("row %d: got %v, want %v", i, m, want)
		}
		if len(list) != len(rows[i].Aircraft) {
			t.Errorf("row %d: %d aircraft", i, len(list))
		}
		for k, x := range list {
			a := x.(map[string]any)
			near(t, a, &rows[i], k, "latitude_deg", "longitude_deg", "amsl_m")
			if want := wantAircraft(&rows[i], k); !reflect.DeepEqual(a, want) {
				t.Errorf("row %d: got %v, want %v", i, a, want)
			}
		}
	}

	b.Reset()
	if err := WriteCSV(&b, flights); err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(table) != 1+2*6+3*2+1 {
		t.Fatalf("%d lines, %v", len(table), err)
	}
	column := func(line int, name string) string {
		for i, x := range table[0] {
			if x == name {
				return table[line][i]
			}
		}
		t.Fatalf("no column %s in %q", name, table[0])
		return ""
	}
	for _, c := range []struct {
		line       int
		name, want string
	}{
		{2, "slot", "0"}, {2, "aircraft_number", "2"}, {2, "aircraft_boot_ms", ""}, {2, "aircraft_reason", "lost"}, {2, "budget_j", ""},
		{2, "aircraft_east_m", ""}, {2, "aircraft_latitude_deg", ""}, {4, "aircraft_speed_mps", "9"},
		{9, "budget_j", "42000"}, {9, "unix_ms", "1795399432057"}, {12, "aircraft_up_m", "99.55555555555556"}, {15, "slot", "1"},
		{15, "aircraft_number", ""},
	} {
		if got := column(c.line, c.name); got != c.want {
			t.Errorf("line %d, %s: got %q, want %q", c.line, c.name, got, c.want)
		}
	}
}

// A position of the tangent plane is where the leader's own conversion has it.
func TestGeodetic(t *testing.T) {
	for _, o := range []fleet.Origin{origin, {LatitudeDeg: -33.9, LongitudeDeg: 151.2, AltitudeM: 20},
		{LatitudeDeg: 69.6, LongitudeDeg: 18.9, AltitudeM: 1200}, {}} {
		for _, p := range []physics.Position{{}, {EastM: 1000, NorthM: 1000}, {EastM: -2000, NorthM: 2200}, {EastM: 3000, NorthM: -100}} {
			latitude, longitude, amsl := Origin{o.LatitudeDeg, o.LongitudeDeg, float64(o.AltitudeM)}.Geodetic(p.EastM, p.NorthM, 100)
			back, up := o.Local(latitude, longitude, height.AboveSea(amsl))
			if d := back.Sub(p).Norm(); d > 0.05 || math.Abs(float64(up)-100) > 1e-6 {
				t.Errorf("origin %+v, %+v: %v m off, up %v", o, p, d, up)
			}
		}
	}
}

// Slots that were missed lie before the settlement that counted them, and none after it is
// moved by them; a clock that was set back, or none, still gives times that rise.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		name   string
		slots  []Slot
		wantMS []int64
	}{
		{"each settled", []Slot{{Slot: 3, UnixMS: 1000}, {Slot: 4, UnixMS: 1510}, {Slot: 5, UnixMS: 1990}}, []int64{1000, 1510, 1990}},
		{"two missed", []Slot{{Slot: 3, UnixMS: 1000}, {Slot: 4, UnixMS: 2600}, {Slot: 5, UnixMS: 2600}, {Slot: 6, UnixMS: 2600},
			{Slot: 7, UnixMS: 3000}}, []int64{1000, 1600, 2100, 2600, 3000}},
		{"the first missed", []Slot{{Slot: 0, UnixMS: 2600}, {Slot: 1, UnixMS: 2600}}, []int64{2100, 2600}},
		{"set back", []Slot{{Slot: 3, UnixMS: 9000}, {Slot: 4, UnixMS: 4000}, {Slot: 6, UnixMS: 5000}}, []int64{3500, 4000, 5000}},
		{"set forward by an hour", []Slot{{Slot: 3, UnixMS: 1000}, {Slot: 4, UnixMS: 1510}, {Slot: 5, UnixMS: 3602000},
			{Slot: 6, UnixMS: 3602500}}, []int64{3600990, 3601500, 3602000, 3602500}},
		{"set back by an hour", []Slot{{Slot: 3, UnixMS: 3601000}, {Slot: 4, UnixMS: 3601510}, {Slot: 5, UnixMS: 2000},
			{Slot: 6, UnixMS: 2500}}, []int64{990, 1500, 2000, 2500}},
		{"set while slots were missed", []Slot{{Slot: 3, UnixMS: 1000}, {Slot: 4, UnixMS: 3602000}, {Slot: 5, UnixMS: 3602000}},
			[]int64{3601000, 3601500, 3602000}},
		{"a leader away for a minute", []Slot{{Slot: 3, UnixMS: 1000}, {Slot: 123, UnixMS: 63000}}, []int64{1000, 63000}},
		{"not recorded", []Slot{{Slot: 3}, {Slot: 4}, {Slot: 6}}, []int64{0, 500, 1500}},
		{"nothing", nil, []int64{}},
	} {
		f := Flight{Place: &Place{SlotMS: 500}, Slots: c.slots}
		if got := f.Times(); !reflect.DeepEqual(got, c.wantMS) {
			t.Errorf("%s: %v, want %v", c.name, got, c.wantMS)
		}
	}
}

// What is no position is left out: nothing is drawn where no aircraft was.
func TestPositions(t *testing.T) {
	f := record("m-1", 1)
	a := f.Rows[0].Aircraft[0]
	f.Rows[0].Status, f.Rows[0].Aircraft = nil, nil
	for _, change := range []func(a *account.AircraftRow){
		func(a *account.AircraftRow) {},
		func(a *account.AircraftRow) { a.EastM, a.NorthM, a.UpM, a.BootMS = 0, 0, 0, 0 }, // never received
		func(a *account.AircraftRow) { a.EastM, a.NorthM, a.UpM = 0, 0, 0 },              // on the origin
		func(a *account.AircraftRow) { a.BootMS = 0 },                                    // of a leader that did not record it
		func(a *account.AircraftRow) { a.EastM = -1e200 },
		func(a *account.AircraftRow) { a.UpM = 2e5 },
	} {
		b := a
		change(&b)
		f.Rows[0].Aircraft = append(f.Rows[0].Aircraft, b)
	}
	flights := mustRead(t, export(t, f))
	for i, a := range flights[0].Slots[0].Aircraft {
		want := i == 0 || i == 2 || i == 3
		if (a.EastM != nil) != want || (a.NorthM != nil) != want || (a.UpM != nil) != want || (a.LatitudeDeg != nil) != want ||
			(a.AMSLM != nil) != want {
			t.Errorf("%d: %+v", i, a)
		}
	}
	if err := WriteMCAP(io.Discard, &flights[0]); err != nil {
		t.Error(err)
	}
}

// Where one command follows another in a slot, the status names the later alone.
func TestAnswers(t *testing.T) {
	command := func(id string, slot int) Command {
		return Command{ID: id, Ack: telemetry.Ack{ID: id, Accepted: slot >= 0, EffectiveSlot: &slot}}
	}
	slot := func(n int, id string) Slot {
		return Slot{Slot: n, Status: &telemetry.Status{LastCommand: &telemetry.LastCommand{ID: id}}}
	}
	f := Flight{
		Slots: []Slot{slot(0, "a"), slot(1, "d"), {Slot: 2}, slot(3, "d")},
		Commands: []Command{command("refused", -1), command("a", 0), command("b", 2), command("refused", -1), command("d", 2),
			command("after", 4)},
	}
	got := ""
	for i, list := range f.Answers() {
		for _, c := range list {
			got += strconv.Itoa(i) + c.ID + " "
		}
	}
	if want := "0refused 0a 1b 1refused 1d 3after "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whatever a file's commands have as their texts, a terminal may show them.
func TestTextsAreShown(t *testing.T) {
	f := record("m-1", 3)
	for i := range f.Commands {
		c := &f.Commands[i]
		c.ID, c.What, c.Ack = "\x1b[2J", "\x1b[2J", bytes.Replace(c.Ack, []byte("is 2"), []byte(`is \u001b[2J`), 1)
	}
	for _, c := range mustRead(t, export(t, f))[0].Commands {
		if text := c.Answer(); strings.ContainsAny(text, "\x1b\n") || !strings.Contains(text, "?[2J") {
			t.Errorf("%q", text)
		}
	}
	// Nor does what a status says turn on a page into what it does not say, or compute in a spreadsheet.
	f.Rows[0].Status.Aircraft[0].Reason, f.Rows[0].Status.Aircraft[1].Reason = "not \u202edennod\u200bbraga", `=HYPERLINK("http://example")`
	f.Rows[0].Status.LastCommand.What = "\u2066stop"
	flights := mustRead(t, export(t, f))
	s := flights[0].Slots[0]
	if got := s.Status.Aircraft[0].Reason + s.Aircraft[0].Reason + s.Status.LastCommand.What; got !=
		"not ?dennod?braganot ?dennod?braga?stop" {
		t.Errorf("%q", got)
	}
	var b bytes.Buffer
	if err := WriteCSV(&b, flights); err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range table[0] {
		if name == "aircraft_reason" && table[2][i] != `'=HYPERLINK("http://example")` {
			t.Errorf("%q", table[2][i])
		}
		if name == "floor_j" && table[1][i] != "29000" {
			t.Errorf("%q", table[1][i])
		}
	}
}

// What reading a file allocates is a small multiple of its size, whatever it holds. Before, a
// file of nothing but empty rows, which gzip makes a thousand times smaller, took 246 bytes of
// memory for each of its own.
func TestReadingAllocatesLittle(t *testing.T) {
	const size = 1 << 20
	times := func(head, one, tail string) []byte {
		return []byte(head + one + strings.Repeat(","+one, size/(len(one)+1)) + tail)
	}
	row := func(n int) string { return fmt.Sprintf(`{"slot":%d}`, n) }
	var rising strings.Builder
	rising.WriteString(`[{"state":{"mission":"m-1"},"rows":[` + row(0))
	for n := 1; rising.Len() < size; n++ {
		rising.WriteString("," + row(n))
	}
	for name, c := range map[string]struct {
		text []byte
		most float64 // bytes for each of its own
	}{
		"missions":       {times(`[`, `{}`, `]`), 60},
		"rows":           {times(`[{"state":{"mission":"m-1"},"rows":[`, `{}`, `]}]`), 60},
		"rows that rise": {[]byte(rising.String() + `]}]`), 250},
		"aircraft":       {times(`[{"state":{"mission":"m-1"},"rows":[{"aircraft":[`, `{}`, `]}]}]`), 60},
		"commands":       {times(`[{"state":{"mission":"m-1"},"commands":[`, `{}`, `]}]`), 60},
		"ignored":        {times(`[{"state":{"mission":"m-1"},"other":[`, `0`, `]}]`), 10},
		"an honest one":  {export(t, record("m-1", 300)), 40},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		flights, err := Read(bytes.NewReader(zipped(c.text)))
		runtime.ReadMemStats(&after)
		if each := (float64(after.TotalAlloc-before.TotalAlloc) - 1<<20) / float64(len(c.text)); each > c.most {
			t.Errorf("%s: %.1f bytes allocated for each, want at most %v (%d missions, %v)", name, each, c.most, len(flights), err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	whole := string(export(t, record("m-1", 3)))
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "not a mission's file"},
		{"a text", "hello", "not a mission's file"},
		{"another JSON", `{"a":1}`, "not a mission's file"},
		{"cut short", whole[:len(whole)/2], "not a mission's file"},
		{"cut short, zipped", string(zipped([]byte(whole))[:300]), "unexpected EOF"},
		{"a ledger", strings.Repeat("\x00", 16) + "\xed\xda\x0c\xed", "the leader's ledger itself"},
		{"a damaged end", string(damagedEnd(zipped([]byte(whole)))), "checksum"},
		{"more behind it", whole + "[]", "after top-level value"},
		{"joules that overflow", strings.Replace(whole, `"delay_s": 2,`, `"delay_s": 1e308,`, 1), "1e+308, want at most 1e+12"},
		{"an aircraft's that overflow", strings.Replace(whole, `"error_j": 10,`, `"error_j": -1e308,`, 1), "-1e+308, want at most 1e+12"},
		{"slots out of order", strings.Replace(whole, `"slot": 2,`, `"slot": 1,`, 1), "slot 1: "},
		{"a status of another slot", strings.Replace(whole, "\"seq\": 0,\n     \"slot\": 1", "\"seq\": 0,\n     \"slot\": 7", 1),
			"status of slot 7"},
		{"a status that none may send", strings.Replace(whole, `"state": "flying"`, `"state": "sleeping"`, 1), "state"},
		{"an aircraft that there is not", strings.Replace(whole, `"number": 2`, `"number": 65`, 1), "aircraft 65"},
		{"no fleet", strings.Replace(whole, `"fleet": "demo"`, `"fleet": "a/b"`, 1), "fleet"},
		{"no mission", strings.Replace(whole, `"mission": "m-1"`, `"mission": "\u001b[2J"`, 1), "no mission's id"},
		{"an answer that is none", strings.Replace(whole, `"accepted": true`, `"accepted": 1`, 1), "command start-1"},
	} {
		if c.text == whole {
			t.Errorf("%s: changes nothing", c.name)
		}
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// damagedEnd is a gzip file with another checksum.
func damagedEnd(raw []byte) []byte {
	raw[len(raw)-8] ^= 1
	return raw
}

// Whatever a file has, reading it ends with missions that can be written, or an error.
func FuzzRead(f *testing.F) {
	raw, _ := json.Marshal([]ledger.Flight{record("m-1", 2)})
	f.Add(raw)
	f.Add(zipped(raw))
	f.Fuzz(func(t *testing.T, raw []byte) {
		flights, err := Read(bytes.NewReader(raw))
		if err != nil {
			return
		}
		for i := range flights {
			if err := WriteMCAP(io.Discard, &flights[i]); err != nil {
				t.Error(err)
			}
		}
		if err := WriteCSV(io.Discard, flights); err != nil {
			t.Error(err)
		}
	})
}
