package telemetry

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// The examples of docs/wire.md, one for each kind with a JSON object.
const (
	slotExample = `{"slot":17,"slot_ms":1000,"speed":1,"report_by_ms":300,"decide_by_ms":450,"offer":{"price_s_per_j":0.0067,` +
		`"aircraft":[{"number":1,"position_m":[410.2,388],"cpu_hz":4e10,"expected_users":2.6}]}}`
	reportExample = `{"slot":17,"position_m":[312.0,844.5],"task":{"bits":1.1e6,"cycles_per_bit":1000,"deadline_s":0.9},` +
		`"queue_bits":0,"cpu_hz":1e9,"gain":{"1":3.2e-9,"2":8.8e-11}}`
	decisionExample = `{"slot":17,"aircraft":1,"offload":0.81,"cpu_hz":1.3e10}`
	resultExample   = `{"slot":17,"completion_s":0.21,"by":"decision","local_s":0.05,"upload_s":0.11}`
	budgetExample   = `{"id":"b1","energy_j":36000,"mode":"target","replaces_j":45000}`
	landedExample   = `{"id":"b3","energy_j":36000,"scope":"landed","packs":[{"aircraft":1,"usable_j":40000,"reserve_j":8000},` +
		`{"aircraft":2,"reserve":0.2}],"stand_down":"land","least_up":1}`
	returnExample     = `{"id":"m4","action":"return","aircraft":[2]}`
	preferenceExample = `{"id":"p1","setting":0.35}`
	missionExample    = `{"id":"m1","action":"start"}`
	launchExample     = `{"id":"m2","action":"launch","aircraft":[2]}`
	newMissionExample = `{"id":"m3","action":"new","mission":"m-2"}`
	ackExample        = `{"id":"b1","accepted":true,"effective_slot":31,"key":"crew-1","of":"` + digestExample +
		`","energy_j":36000,"mode":"target","saturated":false,"floor_j":27113.5}`
	staleAckExample = `{"id":"b1","accepted":false,"reason":"the challenge is stale","key":"crew-1","of":"` + digestExample +
		`","challenge":"` + challengeExample + `","last_counter":1731}`
	statusExample = `{"seq":18,"slot":17,"slots":100,"mission_s":18,"state":"flying","setting":0.4,"budget_j":42000,"mode":"target",` +
		`"spent_j":7100.5,"remaining_j":34899.5,"predicted_end_j":41990,"floor_j":29000,"saturated":false,"transit_j":5000,` +
		`"users_heard":6,"missed_slots":0,"decision_ms":0.7,"energy_source":"energy_consumed","challenge":"` + challengeExample +
		`","last_command":{"id":"b1","key":"crew-1","slot":12,"what":"budget 42000 J, target"},"aircraft":[{"number":1,"reason":"",` +
		`"system_id":1,"position_m":[410.2,388,99.8],"speed_mps":8.4,"mode":"OFFBOARD","landed":false,"battery":0.93,` +
		`"energy_source":"energy_consumed","spent_j":3550,"age_s":0.1},{"number":2,"reason":"Arming denied: high yaw estimate error",` +
		`"system_id":2,"position_m":null,"speed_mps":null,"mode":"","landed":null,"battery":null,"energy_source":"model","spent_j":0,` +
		`"age_s":null}]}`
	heartbeatExample = `{"seq":12,"leaving":true}`
	helloExample     = `{"instance":"8hXkqBq3TbWm4v0s"}`
	proofExample     = `{"instance":"8hXkqBq3TbWm4v0s","challenge":"` + challengeExample + `","seq":18,"slot":17}`
	challengeExample = "3q2-7wAAAAAAAAAAAAAAAA"
	digestExample    = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	envelopeExample  = `{"key":"crew-1","counter":1732,"challenge":"` + challengeExample + `","body":"{\"id\":\"b1\"}","signature":"AAAA"}`
)

// decoders reads any kind of message as an any, for tables.
var decoders = map[string]func([]byte) (any, error){
	"slot":       func(b []byte) (any, error) { return DecodeSlot(b) },
	"report":     func(b []byte) (any, error) { return DecodeReport(b) },
	"decision":   func(b []byte) (any, error) { return DecodeDecision(b) },
	"result":     func(b []byte) (any, error) { return DecodeResult(b) },
	"budget":     func(b []byte) (any, error) { return DecodeBudget(b) },
	"preference": func(b []byte) (any, error) { return DecodePreference(b) },
	"mission":    func(b []byte) (any, error) { return DecodeMission(b) },
	"ack":        func(b []byte) (any, error) { return DecodeAck(b) },
	"status":     func(b []byte) (any, error) { return DecodeStatus(b) },
	"heartbeat":  func(b []byte) (any, error) { return DecodeHeartbeat(b) },
	"worker":     func(b []byte) (any, error) { return DecodeWorker(b) },
	"hello":      func(b []byte) (any, error) { return DecodeHello(b) },
	"proof":      func(b []byte) (any, error) { return DecodeProof(b) },
	"envelope":   func(b []byte) (any, error) { return decode[Envelope](b) },
	"online":     func(b []byte) (any, error) { return DecodeOnline(b) },
}

var examples = map[string]string{
	"slot": slotExample, "report": reportExample, "decision": decisionExample, "result": resultExample,
	"budget": budgetExample, "preference": preferenceExample, "mission": missionExample,
	"ack": ackExample, "status": statusExample, "heartbeat": heartbeatExample, "hello": helloExample, "proof": proofExample,
	"envelope": envelopeExample, "online": "true",
}

func TestExamplesAreAccepted(t *testing.T) {
	for kind, example := range examples {
		if _, err := decoders[kind]([]byte(example)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for example, kind := range map[string]string{landedExample: "budget", returnExample: "mission", launchExample: "mission",
		newMissionExample: "mission", staleAckExample: "ack"} {
		if _, err := decoders[kind]([]byte(example)); err != nil {
			t.Errorf("%s: %v", example, err)
		}
	}
	r, err := DecodeReport([]byte(reportExample))
	want := Report{Slot: 17, PositionM: [2]float64{312, 844.5}, Task: &Task{Bits: 1.1e6, CyclesPerBit: 1000, DeadlineS: 0.9}, CPUHz: 1e9,
		Gain: map[int]float64{1: 3.2e-9, 2: 8.8e-11}}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, %v, want %+v", r, err, want)
	}
}

func TestEveryMissingFieldIsNamed(t *testing.T) {
	optional := map[string]bool{"report.task": true, "report.gain": true, "decision.report_slot": true,
		"result.local_s": true, "result.upload_s": true, "budget.replaces_j": true, "heartbeat.leaving": true,
		"ack.saturated": true, "ack.floor_j": true, "ack.reason": true, "ack.key": true, "ack.of": true, "ack.energy_j": true,
		"ack.mode": true, "status.crew_age_s": true}
	for kind, example := range examples {
		if kind == "online" {
			continue
		}
		s := scanner{input: []byte(example)}
		s.peek()
		for s.pos++; s.peek() != '}'; {
			from := s.pos
			name := string(s.stringValue())
			s.skip()
			without := example[:from] + `"unknown":[{}]` + example[s.pos:]
			_, err := decoders[kind]([]byte(without))
			full := kind + "." + name
			if optional[full] {
				if err != nil {
					t.Errorf("%s is optional: %v", full, err)
				}
			} else if err == nil || err.Error() != full+": missing" {
				t.Errorf("without %s: %v", full, err)
			}
		}
	}
}

// Some clients write null for an absent field.
func TestNullIsAbsence(t *testing.T) {
	for kind, payloads := range map[string][2]string{
		"report": {`{"slot":1,"position_m":[1,2],"queue_bits":0,"cpu_hz":1,"task":null,"gain":null}`,
			`{"slot":1,"position_m":[1,2],"queue_bits":0,"cpu_hz":1}`},
		"decision": {`{"slot":1,"aircraft":0,"offload":0,"cpu_hz":0,"report_slot":null}`, `{"slot":1,"aircraft":0,"offload":0,"cpu_hz":0}`},
		"ack": {`{"id":"b1","accepted":true,"effective_slot":3,"saturated":null,"floor_j":null,"reason":null}`,
			`{"id":"b1","accepted":true,"effective_slot":3}`},
	} {
		with, err := decoders[kind]([]byte(payloads[0]))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		without, err := decoders[kind]([]byte(payloads[1]))
		if err != nil || !reflect.DeepEqual(with, without) {
			t.Errorf("%s: %+v with nulls, %+v without, %v", kind, with, without, err)
		}
	}
	if _, err := DecodeAck([]byte(`{"id":"b1","accepted":false,"reason":null}`)); err == nil || err.Error() != "ack.reason: missing" {
		t.Errorf("refused without a reason: %v", err)
	}
}

func TestRefused(t *testing.T) {
	swap := func(example, old, new string) string {
		if strings.Count(example, old) == 0 {
			t.Fatalf("no %s in %s", old, example)
		}
		return strings.Replace(example, old, new, 1)
	}
	cases := []struct{ kind, payload, want string }{
		{"report", swap(reportExample, "1.1e6", "1e40"), "report.task.bits: 1e+40 is outside [1, 1e12]"},
		{"report", swap(reportExample, "1.1e6", "1e400"), `report.task.bits: "1e400" is not finite`},
		{"report", swap(reportExample, "1.1e6", "-1e400"), `report.task.bits: "-1e400" is not finite`},
		{"report", swap(reportExample, "1.1e6", "0"), "report.task.bits: 0 is outside [1, 1e12]"},
		{"report", swap(reportExample, "1.1e6", "NaN"), "report: not JSON"},
		{"report", swap(reportExample, "1.1e6", `"1"`), `report.task.bits: "\"1\"", want a number`},
		{"report", swap(reportExample, "1.1e6", `null`), `report.task.bits: "null", want a number`},
		{"report", swap(reportExample, "1.1e6", strings.Repeat("1", 65)), "report: a number of 65 characters"},
		{"report", swap(reportExample, "1.1e6", "1.1e9"), "report.task: more than 1e12 cycles, bits x cycles_per_bit"},
		{"report", swap(reportExample, `"cpu_hz":1e9`, `"cpu_hz":1e4`), "report.task: more than 86400 s on the user's own CPU"},
		{"report", swap(reportExample, "844.5", "1e6"), "report.position_m: 1e+06 is outside [-1e5, 1e5]"},
		{"report", swap(reportExample, ",844.5", ""), "report.position_m: 1 elements, want 2"},
		{"report", swap(reportExample, "844.5", "1,2"), "report.position_m: 3 elements, want 2"},
		{"report", swap(reportExample, `"2":`, `"65":`), `report.gain: key "65", want an integer in [1, 64]`},
		{"report", swap(reportExample, `"2":`, `"02":`), `report.gain: key "02", want an integer in [1, 64]`},
		{"report", swap(reportExample, "8.8e-11", "1.5"), "report.gain: 1.5 is outside (0, 1]"},
		{"report", swap(reportExample, `"slot"`, `"Slot"`), "report.slot: missing"},
		{"report", swap(reportExample, `"slot":17`, `"slot":17,"sl\u006ft":18`), `report: key "slot" twice`},
		{"report", swap(reportExample, `"slot":17`, `"x":{"a":1,"a":2},"slot":17`), `report: key "a" twice`},
		{"report", swap(reportExample, `"slot":17`, `"slot":17.5`), "report.slot: 17.5, want an integer"},
		{"report", swap(reportExample, `"slot":17`, `"slot":-1`), "report.slot: -1 is outside [0, 1e9]"},
		{"report", swap(reportExample, `"slot"`, "\"sl\xffot\""), "report: not UTF-8"},
		{"report", swap(reportExample, `"queue_bits":0`, `"queue_bits":`+strings.Repeat("[", 20)+strings.Repeat("]", 20)),
			"report: nested deeper than 8"},
		{"report", strings.Repeat("[", MaxPayload), "report: not JSON"},
		{"report", strings.Repeat(" ", MaxPayload+1), "report: 8193 bytes, at most 8192 are read"},
		{"status", strings.Repeat(" ", MaxStatus+1), "status: 65537 bytes, at most 65536 are read"},
		{"report", "", "report: not JSON"},
		{"report", "[]", `report: "[]", want an object`},
		{"report", "null", `report: "null", want an object`},
		{"report", reportExample + "{}", "report: not JSON"},
		{"slot", swap(slotExample, `"report_by_ms":300`, `"report_by_ms":450`), "slot.report_by_ms: not before decide_by_ms"},
		{"slot", swap(slotExample, `"decide_by_ms":450`, `"decide_by_ms":1001`), "slot.decide_by_ms: after the slot's end, slot_ms"},
		{"slot", swap(slotExample, `"speed":1`, `"speed":2`), "slot.speed: not 1000 / slot_ms"},
		{"slot", swap(slotExample, `"number":1`, `"number":0`), "slot.offer.aircraft.number: 0 is outside [1, 64]"},
		{"slot", swap(slotExample, `"aircraft":[`, `"aircraft":[`+strings.Repeat("1,", 64)), "slot.offer.aircraft: \"1\", want an object"},
		{"decision", `{"slot":1,"aircraft":0,"offload":0.1,"cpu_hz":0}`, "decision.offload: not 0 with aircraft 0"},
		{"decision", `{"slot":1,"aircraft":1,"offload":0,"cpu_hz":1}`, "decision.offload: 0 with an aircraft; local is aircraft 0"},
		{"decision", `{"slot":1,"aircraft":1,"offload":1,"cpu_hz":0}`, "decision.cpu_hz: 0 with an aircraft"},
		{"decision", `{"slot":1,"aircraft":1,"offload":1,"cpu_hz":1,"report_slot":1}`, "decision.report_slot: not before slot"},
		{"result", swap(resultExample, `"decision"`, `"magic"`), `result.by: "magic", want one of decision, offer, local`},
		{"budget", swap(budgetExample, "36000", "-5"), "budget.energy_j: -5 is outside (0, 1e12]"},
		{"budget", swap(budgetExample, `"b1"`, `"b 1"`), `budget.id: "b 1", want 1 to 64 of A-Z a-z 0-9 . _ -`},
		{"budget", `{"id":"b1","mode":"ceiling"}`, "budget.energy_j: missing"},
		{"budget", `{"id":"b1","mode":"ceiling","packs":[]}`, "budget.energy_j: missing"},
		{"budget", `{"id":"b1","energy_j":36000,"stand_down":"land"}`, "budget.mode: missing"},
		{"budget", `{"id":"b1","mode":"target","packs":[{"aircraft":1}]}`,
			"budget.mode: mode is target, but energy_j is missing; packs alone make a ceiling"},
		{"budget", `{"id":"b1","packs":[{"aircraft":1},{"aircraft":2},{"aircraft":1}]}`, "budget.packs.aircraft: a number twice"},
		{"budget", `{"id":"b1","packs":[{"usable_j":5}]}`, "budget.packs.aircraft: missing"},
		{"budget", `{"id":"b1","packs":[{"aircraft":65}]}`, "budget.packs.aircraft: 65 is outside [1, 64]"},
		{"budget", `{"id":"b1","packs":[{"aircraft":1,"usable_j":0}]}`, "budget.packs.usable_j: 0 is outside (0, 1e12]"},
		{"budget", `{"id":"b1","packs":[{"aircraft":1,"reserve":1}]}`, "budget.packs.reserve: 1 is outside [0, 1)"},
		{"budget", `{"id":"b1","packs":[{"aircraft":1,"reserve":0.2,"reserve_j":1}]}`,
			"budget.packs.reserve: beside reserve_j; want one of them"},
		{"budget", `{"id":"b1","packs":[{"aircraft":1,"usable_j":8000,"reserve_j":8000}]}`, "budget.packs.reserve_j: not below usable_j"},
		{"budget", swap(budgetExample, `"b1"`, `"b1","scope":"all"`), `budget.scope: "all", want one of slots, landed`},
		{"budget", swap(budgetExample, `"b1"`, `"b1","stand_down":"yes"`), `budget.stand_down: "yes", want one of never, land, shifts`},
		{"budget", swap(budgetExample, `"b1"`, `"b1","least_up":0`), "budget.least_up: 0 is outside [1, 64]"},
		{"preference", swap(preferenceExample, "0.35", "1.01"), "preference.setting: 1.01 is outside [0, 1]"},
		{"mission", swap(missionExample, `"start"`, `"go"`),
			`mission.action: "go", want one of start, hold, resume, return, stop, launch, clear, new`},
		{"ack", `{"id":"b1","accepted":true}`, "ack.effective_slot: missing"},
		{"mission", `{"id":"m","action":"launch"}`, "mission.aircraft: missing"},
		{"mission", `{"id":"m","action":"clear"}`, "mission.aircraft: missing"},
		{"mission", `{"id":"m","action":"launch","aircraft":null}`, "mission.aircraft: missing"},
		{"mission", `{"id":"m","action":"launch","aircraft":[]}`, "mission.aircraft: empty"},
		{"mission", `{"id":"m","action":"resume","aircraft":[]}`, "mission.aircraft: empty"},
		{"mission", `{"id":"m","action":"resume","aircraft":[2,1,2]}`, "mission.aircraft: a number twice"},
		{"mission", `{"id":"m","action":"launch","aircraft":[0]}`, "mission.aircraft: 0 is outside [1, 64]"},
		{"mission", `{"id":"m","action":"launch","aircraft":2}`, `mission.aircraft: "2", want a list`},
		{"mission", `{"id":"m","action":"stop","aircraft":[1]}`, "mission.aircraft: only with resume, return, launch and clear"},
		{"mission", `{"id":"m","action":"start","aircraft":[]}`, "mission.aircraft: only with resume, return, launch and clear"},
		{"mission", `{"id":"m","action":"new"}`, "mission.mission: missing"},
		{"mission", `{"id":"m","action":"start","mission":"m-2"}`, "mission.mission: only with new"},
		{"mission", `{"id":"m","action":"new","mission":"m 2"}`, `mission.mission: "m 2", want 1 to 64 of A-Z a-z 0-9 . _ -`},
		{"budget", swap(budgetExample, "45000", "0"), "budget.replaces_j: 0 is outside (0, 1e12]"},
		{"result", swap(resultExample, "0.05", "-1"), "result.local_s: -1 is outside [0, 86400]"},
		{"result", swap(resultExample, "0.05", "1e400"), `result.local_s: "1e400" is not finite`},
		{"result", swap(resultExample, "0.05", "0.22"), "result.local_s: more than completion_s"},
		{"result", swap(resultExample, "0.11", "-1"), "result.upload_s: -1 is outside [0, 86400]"},
		{"result", swap(resultExample, "0.11", "0.22"), "result.upload_s: more than completion_s"},
		{"heartbeat", `{"seq":-1}`, "heartbeat.seq: -1 is outside [0, 9007199254740992]"},
		{"proof", swap(proofExample, challengeExample, "short"), `proof.challenge: "short", want 22 to 64 of A-Z a-z 0-9 _ -`},
		{"envelope", swap(envelopeExample, challengeExample, challengeExample[1:]),
			`envelope.challenge: "q2-7wAAAAAAAAAAAAAAAA", want 22 to 64 of A-Z a-z 0-9 _ -`},
		{"envelope", swap(envelopeExample, challengeExample, strings.Repeat("A", 65)),
			`envelope.challenge: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"..., want 22 to 64 of A-Z a-z 0-9 _ -`},
		{"envelope", swap(envelopeExample, challengeExample, "3q2+7wAAAAAAAAAAAAAAAA"),
			`envelope.challenge: "3q2+7wAAAAAAAAAAAAAAAA", want 22 to 64 of A-Z a-z 0-9 _ -`},
		{"ack", swap(ackExample, digestExample, digestExample[1:]),
			fmt.Sprintf("ack.of: %s, want 64 of 0-9 a-f", quote(digestExample[1:]))},
		{"ack", swap(staleAckExample, `,"last_counter":1731`, ""), "ack.last_counter: missing beside challenge"},
		{"ack", swap(staleAckExample, `"challenge":"`+challengeExample+`",`, ""), "ack.challenge: missing beside last_counter"},
		{"ack", swap(staleAckExample, `"accepted":false`, `"accepted":true,"effective_slot":1`), "ack.challenge: with an accepted command"},
		{"ack", `{"id":"b1","accepted":false}`, "ack.reason: missing"},
		{"status", swap(statusExample, `"number":1`, `"number":99`), "status.aircraft.number: 99 is outside [1, 64]"},
		{"online", "1", `online: "1", want true or false`},
	}
	for _, c := range cases {
		_, err := decoders[c.kind]([]byte(c.payload))
		if invalid := (*InvalidError)(nil); err == nil || err.Error() != c.want || !errors.As(err, &invalid) {
			t.Errorf("%.80s\n got %v\nwant %s", c.payload, err, c.want)
		}
	}
}

// A command with a valid id is answered with a refusal; any other is only counted.
func TestCommandIDSurvivesAnError(t *testing.T) {
	cases := []struct{ payload, wantID string }{
		{`{"id":"b1","energy_j":-5,"mode":"target"}`, "b1"},
		{`{"energy_j":-5,"mode":7,"id":"b1"}`, "b1"},
		{`{"id":"b1"}`, "b1"},
		{`{"id":"","energy_j":-5}`, ""},
		{`{"energy_j":5}`, ""},
		{`{"id":"b1","id":"b2"}`, ""},
		{`{"id":"b1"`, ""},
	}
	for _, c := range cases {
		b, err := DecodeBudget([]byte(c.payload))
		if err == nil || !reflect.DeepEqual(b, Budget{ID: c.wantID}) {
			t.Errorf("%s: got %+v, %v", c.payload, b, err)
		}
	}
}

func TestEncodeRejectsInvalidMessages(t *testing.T) {
	if _, err := Encode(Decision{Slot: 1, Aircraft: 1, Offload: 1.5, CPUHz: 1}); err == nil ||
		err.Error() != "encode decision.offload: 1.5 is outside [0, 1]" {
		t.Error(err)
	}
	local, err := Encode(Decision{Slot: 3})
	if err != nil || string(local) != `{"slot":3,"aircraft":0,"offload":0,"cpu_hz":0}` {
		t.Errorf("local: %s, %v", local, err)
	}
	idle, err := Encode(Report{Slot: 3, CPUHz: 1e9})
	if err != nil || string(idle) != `{"slot":3,"position_m":[0,0],"queue_bits":0,"cpu_hz":1000000000}` {
		t.Errorf("idle: %s, %v", idle, err)
	}
	if _, err := Encode(Slot{Slot: 1, SlotMS: 100, Speed: 10, ReportByMS: 30, DecideByMS: 45}); err == nil {
		t.Error("a nil list of aircraft encodes as null and was accepted")
	}
}

// roundTrip checks that an accepted message is the same after encoding and decoding.
func roundTrip[T message](t *testing.T, v T, err error) {
	if err != nil {
		return
	}
	payload, err := Encode(v)
	if err != nil {
		t.Fatalf("accepted %+v, but: %v", v, err)
	}
	again, err := decode[T](payload)
	if err != nil || !reflect.DeepEqual(v, again) {
		t.Fatalf("%+v became %+v, %v", v, again, err)
	}
}

func addSeeds(f *testing.F, kind string) {
	f.Add([]byte(examples[kind]))
	for _, bad := range []string{"", "null", "[]", "{", `{"slot":1e400}`, `{"slot":"x","slot":1}`, "\xff", `{"a":[[[[[[[[[]]]]]]]]]}`,
		`{"\ud800":1}`} {
		f.Add([]byte(bad))
	}
}

func FuzzSlot(f *testing.F) {
	addSeeds(f, "slot")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeSlot(b); roundTrip(t, v, err) })
}

func FuzzReport(f *testing.F) {
	addSeeds(f, "report")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeReport(b); roundTrip(t, v, err) })
}

func FuzzDecision(f *testing.F) {
	addSeeds(f, "decision")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeDecision(b); roundTrip(t, v, err) })
}

func FuzzResult(f *testing.F) {
	addSeeds(f, "result")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeResult(b); roundTrip(t, v, err) })
}

func FuzzBudget(f *testing.F) {
	addSeeds(f, "budget")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeBudget(b); roundTrip(t, v, err) })
}

func FuzzPreference(f *testing.F) {
	addSeeds(f, "preference")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodePreference(b); roundTrip(t, v, err) })
}

func FuzzMission(f *testing.F) {
	addSeeds(f, "mission")
	f.Add([]byte(launchExample))
	f.Add([]byte(newMissionExample))
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeMission(b); roundTrip(t, v, err) })
}

func FuzzAck(f *testing.F) {
	addSeeds(f, "ack")
	f.Add([]byte(staleAckExample))
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeAck(b); roundTrip(t, v, err) })
}

func FuzzStatus(f *testing.F) {
	addSeeds(f, "status")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeStatus(b); roundTrip(t, v, err) })
}

func FuzzHeartbeat(f *testing.F) {
	addSeeds(f, "heartbeat")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeHeartbeat(b); roundTrip(t, v, err) })
}

func FuzzHello(f *testing.F) {
	addSeeds(f, "hello")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeHello(b); roundTrip(t, v, err) })
}

func FuzzProof(f *testing.F) {
	addSeeds(f, "proof")
	f.Fuzz(func(t *testing.T, b []byte) { v, err := DecodeProof(b); roundTrip(t, v, err) })
}

func FuzzEnvelope(f *testing.F) {
	addSeeds(f, "envelope")
	keys := map[string]ed25519.PublicKey{"crew-1": ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decode[Envelope](b)
		roundTrip(t, v, err)
		if err == nil && !LooksSigned(b) {
			t.Fatalf("%q is an envelope and does not look signed", b)
		}
		if _, err := Verify("prefdt/f1/command/budget", b, keys); err == nil {
			t.Fatalf("verified without a signature: %q", b)
		}
	})
}

func FuzzOnline(f *testing.F) {
	addSeeds(f, "online")
	f.Fuzz(func(t *testing.T, b []byte) {
		online, err := DecodeOnline(b)
		if err == nil && string(EncodeOnline(online)) != string(b) {
			t.Fatalf("%q was taken for %v", b, online)
		}
	})
}

func FuzzTopic(f *testing.F) {
	topics, _ := NewTopics("f1")
	for _, topic := range []string{topics.Report("u1"), topics.Budget(), topics.Ack("a"), topics.Heartbeat("crew-1"), topics.Hello(),
		topics.Proof(), "prefdt/f1/crew//heartbeat", "prefdt/f1/users//report", "prefdt/f1/users/a/b/report", ""} {
		f.Add(topic)
	}
	f.Fuzz(func(t *testing.T, topic string) {
		kind, id, ok := topics.Parse(topic)
		if !ok {
			return
		}
		again := map[Kind]string{KindSlot: topics.Slot(), KindReport: topics.Report(id), KindDecision: topics.Decision(id),
			KindResult: topics.Result(id), KindBudget: topics.Budget(), KindPreference: topics.Preference(),
			KindMission: topics.Mission(), KindAck: topics.Ack(id), KindStatus: topics.Status(), KindOnline: topics.Online(),
			KindHeartbeat: topics.Heartbeat(id), KindHello: topics.Hello(), KindProof: topics.Proof()}
		if again[kind] != topic {
			t.Fatalf("%q is read as %s %q, which is %q", topic, kind, id, again[kind])
		}
	})
}

// A report is read 4,096 times a slot: what it allocates is what its message holds, and its path.
func TestDecodeReportAllocates(t *testing.T) {
	const most = 8 // the report, its task, gains and their two keys; the path and two values of reflection
	if n := testing.AllocsPerRun(100, func() { DecodeReport([]byte(reportExample)) }); n > most {
		t.Errorf("%v allocations, want %d at most", n, most)
	}
}

func BenchmarkDecodeReport(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeReport([]byte(reportExample)); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleDecodeReport() {
	_, err := DecodeReport([]byte(`{"slot":17,"position_m":[312,844.5],"queue_bits":0,"cpu_hz":-1}`))
	fmt.Println(err)
	// Output: report.cpu_hz: -1 is outside [1, 1e15]
}
