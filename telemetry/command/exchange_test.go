package command

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/telemetry"
)

var topics = func() telemetry.Topics {
	topics, err := telemetry.NewTopics("f1")
	if err != nil {
		panic(err)
	}
	return topics
}()

// exampleStatus is two aircraft in the air at slot 17 of 100, under a budget.
func exampleStatus() telemetry.Status {
	budget, mode, remaining, landed := 42000.0, telemetry.ModeTarget, 34899.5, false
	position, age := [3]float64{410, 388, 100}, 0.1
	aircraft := func(n int) telemetry.StatusAircraft {
		return telemetry.StatusAircraft{Number: n, SystemID: n, Mode: "OFFBOARD", Landed: &landed, PositionM: &position, AgeS: &age,
			EnergySource: telemetry.SourceModel}
	}
	return telemetry.Status{
		Seq: 17, Slot: 17, Slots: 100, State: telemetry.StateFlying, Challenge: strings.Repeat("c", 22), BudgetJ: &budget, Mode: &mode,
		RemainingJ: &remaining,
		SpentJ:     7100.5, FloorJ: 29000, EnergySource: telemetry.SourceModel,
		Aircraft: []telemetry.StatusAircraft{aircraft(1), aircraft(2)},
	}
}

// newSignedExchange is an exchange that a test leads by hand, of a signed stop.
func newSignedExchange(t *testing.T) *Exchange {
	path := filepath.Join(t.TempDir(), "crew-1.key")
	if _, err := telemetry.NewKey(path); err != nil {
		t.Fatal(err)
	}
	signer, err := NewSigner(path)
	if err != nil {
		t.Fatal(err)
	}
	x := &Exchange{Request: Request{Mission: &telemetry.Mission{ID: "s1", Action: telemetry.ActionStop}}, Topics: topics, Signer: signer}
	if err := x.Initialize(); err != nil {
		t.Fatal(err)
	}
	return x
}

func deliver[T telemetry.Status | telemetry.Ack](t *testing.T, x *Exchange, topic string, v T) ([]byte, *telemetry.Ack) {
	t.Helper()
	payload, err := telemetry.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	publish, answer, err := x.HandleMessage(telemetry.Message{Topic: topic, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return publish, answer
}

// Nothing is sent before the challenge of a status, later ones change nothing,
// and only answers to our own payloads count, an early one's included.
func TestExchange(t *testing.T) {
	x := newSignedExchange(t)
	if x.Start() != nil {
		t.Error("sent without a challenge")
	}
	if got := x.NoAnswerReason(); !strings.HasSuffix(got, "nothing was sent") {
		t.Error(got)
	}
	s, slot, zero := exampleStatus(), 3, uint64(0)
	first, _ := deliver(t, x, topics.Status(), s)
	if first == nil {
		t.Fatal("not sent with a challenge")
	}
	s.Challenge = telemetry.NewChallenge()
	if p, _ := deliver(t, x, topics.Status(), s); p != nil {
		t.Error("sent twice")
	}
	foreign := telemetry.Ack{ID: "s1", Accepted: true, EffectiveSlot: &slot, Of: telemetry.Digest([]byte("another station's"))}
	for _, of := range []string{foreign.Of, ""} {
		foreign.Of = of
		if _, answer := deliver(t, x, topics.Ack("s1"), foreign); answer != nil {
			t.Errorf("the answer to %q was believed", of)
		}
	}
	if got := x.NoAnswerReason(); !strings.Contains(got, "may still be applied") {
		t.Error(got)
	}
	stale := telemetry.Ack{ID: "s1", Reason: "stale", Of: telemetry.Digest(first), Challenge: s.Challenge, LastCounter: &zero}
	second, answer := deliver(t, x, topics.Ack("s1"), stale)
	if second == nil || answer != nil {
		t.Fatalf("a stale command: %s, %+v", second, answer)
	}
	// The first payload was sent twice, and is refused twice.
	if p, answer := deliver(t, x, topics.Ack("s1"), stale); p != nil || answer != nil {
		t.Errorf("the refusal of the first payload again: %s, %+v", p, answer)
	}
	s.LastCommand = &telemetry.LastCommand{ID: "s1", Key: "crew-2", Slot: 7, What: "mission stop"}
	deliver(t, x, topics.Status(), s)
	if got := x.NoAnswerReason(); strings.Contains(got, "slot 7") {
		t.Errorf("another key's command is taken for this one: %s", got)
	}
	s.LastCommand.Key = "crew-1"
	deliver(t, x, topics.Status(), s)
	if got := x.NoAnswerReason(); !strings.HasSuffix(got, "the status names command s1 as applied from slot 7") {
		t.Error(got)
	}
	// The first one had arrived after all, before the challenge changed.
	if _, answer := deliver(t, x, topics.Ack("s1"), telemetry.Ack{ID: "s1", Accepted: true, EffectiveSlot: &slot,
		Of: telemetry.Digest(first)}); answer == nil {
		t.Error("the answer to the first payload was ignored")
	}
}

// The reason printed when there is no valid answer.
func TestNoAnswerReason(t *testing.T) {
	digest := telemetry.Digest([]byte(`{"id":"s1","action":"stop"}`))
	status, err := telemetry.Encode(exampleStatus())
	if err != nil {
		t.Fatal(err)
	}
	yes, no := [2]string{topics.Online(), "true"}, [2]string{topics.Online(), "false"}
	ack := func(text string) [2]string {
		return [2]string{topics.Ack("s1"), strings.Replace(text, "OF", digest, 1)}
	}
	for name, c := range map[string]struct {
		signed   bool
		received [][2]string // topic, payload
		want     string
	}{
		"no leader": {false, nil, "no leader of fleet f1 was ever at this broker; command s1 may still be applied"},
		"offline":   {false, [][2]string{yes, no}, "the leader of fleet f1 is offline; command s1 may still be applied"},
		"silent": {false, [][2]string{yes},
			"the leader is online; the broker may not let this station's commands through; command s1 may still be applied"},
		"no challenge": {true, [][2]string{yes},
			"the leader is online, but its status has not arrived; nothing can be sent without the challenge and the floor in it; " +
				"nothing was sent"},
		"an unreadable status": {true, [][2]string{yes, {topics.Status(), "{}"}},
			"the answer cannot be read: status.seq: missing; nothing was sent"},
		"silent, though signed": {true, [][2]string{yes, {topics.Status(), string(status)}},
			"the leader is online; the broker may not let this station's commands through; command s1 may still be applied"},
		"an unreadable answer": {false, [][2]string{yes, ack(`{"id":"s1","of":"OF","accepted":"yes"}`)},
			`the answer cannot be read: ack.accepted: "\"yes\"", want true or false; command s1 may still be applied`},
		"another id": {false, [][2]string{yes, ack(`{"id":"b2","of":"OF","accepted":true,"effective_slot":3}`)},
			`the answer cannot be read: ack.id: "b2", on the topic of s1; command s1 may still be applied`},
		"another station's": {false, [][2]string{yes,
			ack(`{"id":"s1","of":"` + telemetry.Digest(nil) + `","accepted":true,"effective_slot":3}`)},
			"the leader answered another command with this id, perhaps of another station; command s1 may still be applied"},
		"an answer to nothing": {false, [][2]string{yes, ack(`{"id":"s1","accepted":true,"effective_slot":3}`)},
			"the leader answered another command with this id, perhaps of another station; command s1 may still be applied"},
		"escape sequences in it": {false, [][2]string{yes, ack("{\"id\":\"s1\",\"accepted\":\"\x1b\"}")},
			"the answer cannot be read: ack: not JSON; command s1 may still be applied"},
	} {
		x := newSignedExchange(t)
		if !c.signed {
			x.Signer = nil
		}
		x.Start()
		for _, m := range c.received {
			if _, answer, err := x.HandleMessage(telemetry.Message{Topic: m[0], Payload: []byte(m[1])}); err != nil || answer != nil {
				t.Errorf("%s: %+v, %v", name, answer, err)
			}
		}
		if got := x.NoAnswerReason(); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// A budget waits for the floor of a status, and is not sent below it unless that was
// asked for; it goes at once where it was.
func TestBelowTheFloor(t *testing.T) {
	for name, c := range map[string]struct {
		energyJ    float64
		belowFloor bool
		atOnce     bool // sent before a status
		err        error
	}{
		"above":               {29001, false, false, nil},
		"on it":               {29000, false, false, nil},
		"below":               {28999, false, false, ErrBelowFloor},
		"below, and meant so": {28999, true, true, nil},
	} {
		b := &telemetry.Budget{ID: "b1", EnergyJ: c.energyJ, Mode: telemetry.ModeTarget}
		x := &Exchange{Request: Request{Budget: b}, Topics: topics, BelowFloor: c.belowFloor}
		if err := x.Initialize(); err != nil {
			t.Fatal(err)
		}
		if sent := x.Start() != nil; sent != c.atOnce {
			t.Errorf("%s: sent before a status: %v", name, sent)
		}
		status, err := telemetry.Encode(exampleStatus())
		if err != nil {
			t.Fatal(err)
		}
		publish, _, err := x.HandleMessage(telemetry.Message{Topic: topics.Status(), Payload: status})
		if !errors.Is(err, c.err) || (publish != nil) != (err == nil && !c.atOnce) {
			t.Errorf("%s: %s, %v", name, publish, err)
		}
	}
}

// A budget with bounds is checked against the least that its own floor can be, and its reserves against
// what the packs hold; what the status of another budget does not tell is left to the answer.
func TestBoundsThatCannotBeKept(t *testing.T) {
	reserve := func(share float64) (packs []telemetry.Pack) {
		return []telemetry.Pack{{Aircraft: 1, Reserve: &share}, {Aircraft: 2, Reserve: &share}}
	}
	joules := []telemetry.Pack{{Aircraft: 1, ReserveJ: new(136e3)}, {Aircraft: 2, ReserveJ: new(136e3)}}
	const landed, land, never = telemetry.ScopeLanded, telemetry.StandDownLand, telemetry.StandDownNever
	bounded := func(s *telemetry.Status) {
		s.CoveredUntilSlot = new(99)
		for i := range s.Aircraft {
			s.Aircraft[i].UsableJ, s.Aircraft[i].HomeJ = new(147e3), new(12e3)
		}
	}
	for name, c := range map[string]struct {
		budget telemetry.Budget
		change func(s *telemetry.Status)
		err    error
	}{
		"all stay, above": {telemetry.Budget{EnergyJ: 29001, Scope: landed, StandDown: land, LeastUp: new(2)}, nil, nil},
		"all stay, below": {telemetry.Budget{EnergyJ: 28999, Scope: landed, StandDown: land, LeastUp: new(2)}, nil,
			ErrBelowFloor},
		"all stay, below, packs too": {telemetry.Budget{EnergyJ: 28999, Scope: landed, StandDown: land, LeastUp: new(2),
			Packs: reserve(0.2)}, nil, ErrBelowFloor},
		"all stay, below another's": {telemetry.Budget{EnergyJ: 28999, Scope: landed, StandDown: land, LeastUp: new(2)}, bounded,
			ErrBelowFloor},
		"none may land, below":       {telemetry.Budget{EnergyJ: 28999, Scope: landed}, nil, ErrBelowFloor},
		"one stays, above":           {telemetry.Budget{EnergyJ: 18051, StandDown: land}, nil, nil},
		"one stays, below":           {telemetry.Budget{EnergyJ: 18050, StandDown: land}, nil, ErrBelowFloor},
		"one stays, another's floor": {telemetry.Budget{EnergyJ: 18050, StandDown: land}, bounded, nil},
		"a fifth is left":            {telemetry.Budget{Scope: landed, StandDown: land, Packs: reserve(0.2)}, nil, nil},
		"all is left":                {telemetry.Budget{Scope: landed, StandDown: land, Packs: reserve(0.95)}, nil, ErrLandsAtOnce},
		"all is left, by the status": {telemetry.Budget{Scope: landed, StandDown: land, Packs: reserve(0.91)}, bounded, ErrLandsAtOnce},
		"not all, by the status":     {telemetry.Budget{Scope: landed, StandDown: land, Packs: reserve(0.89)}, bounded, nil},
		"joules, by the status":      {telemetry.Budget{Scope: landed, StandDown: land, Packs: joules}, bounded, ErrLandsAtOnce},
		"joules of packs not known":  {telemetry.Budget{Scope: landed, StandDown: land, Packs: joules}, nil, nil},
		"of one of them":             {telemetry.Budget{EnergyJ: 42e3, Scope: landed, StandDown: land, Packs: reserve(0.95)[:1]}, nil, nil},
		"none may land for it":       {telemetry.Budget{Scope: landed, StandDown: never, Packs: reserve(0.95)}, nil, nil},
		"before the start": {telemetry.Budget{Scope: landed, StandDown: land, Packs: reserve(0.95)},
			func(s *telemetry.Status) { s.State, s.Aircraft[0].Landed = telemetry.StateIdle, new(true) }, ErrLandsAtOnce},
		"the other has landed": {telemetry.Budget{Scope: landed, StandDown: land, Packs: reserve(0.95)[:1]},
			func(s *telemetry.Status) { s.Aircraft[1].Landed = new(true) }, ErrLandsAtOnce},
		"nobody flies": {telemetry.Budget{Scope: landed, StandDown: land, Packs: reserve(0.2)},
			func(s *telemetry.Status) { s.Aircraft = nil }, nil},
	} {
		s := exampleStatus()
		for i := range s.Aircraft {
			s.Aircraft[i].Battery = new(0.98)
		}
		if c.change != nil {
			c.change(&s)
		}
		r := Request{Budget: &c.budget}
		if err := r.Check(&s); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if text := r.Consequence(&s); strings.Contains(text, "below the floor") != (c.err == ErrBelowFloor) ||
			strings.Contains(text, "at once") != (c.err == ErrLandsAtOnce) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// The answer to a budget with bounds says on what it ends if it cannot be kept, and no slot that there is not.
func TestAnswerOfBounds(t *testing.T) {
	for name, c := range map[string]struct {
		saturated bool
		slot      int
		covered   int
		slots     int // of the mission; 0: no status was received
		energyJ   float64
		floorJ    float64
		want      string
	}{
		"kept": {false, 10, 399, 400, 42e3, 29e3, "budget of 42 kJ (ceiling) accepted from slot 10; the floor is 29 kJ, covered until " +
			"slot 399, aircraft 1 lands with 7.1 kJ"},
		"below its floor": {true, 10, 399, 400, 42e3, 43e3, "budget of 42 kJ (ceiling) accepted from slot 10, SATURATED: below what " +
			"flying needs; it ends at the floor of 43 kJ, covered until slot 399, aircraft 1 lands with 7.1 kJ"},
		"its packs do not last": {true, 10, 250, 400, 42e3, 29e3, "budget of 42 kJ (ceiling) accepted from slot 10, SATURATED: the packs " +
			"do not last to the last slot; the floor is 29 kJ, covered until slot 250 of 400, aircraft 1 lands with 7.1 kJ"},
		"not at all": {true, 0, -1, 400, 42e3, 43e3, "budget of 42 kJ (ceiling) accepted from slot 0, SATURATED: below what flying " +
			"needs; it ends at the floor of 43 kJ, NOT COVERED: too few stay in the air from the first slot on, aircraft 1 lands with " +
			"7.1 kJ"},
		"the packs do not last": {false, 10, 264, 400, 0, 29e3, "budget of 42 kJ (ceiling) accepted from slot 10; the floor is 29 kJ, " +
			"covered until slot 264 of 400: the packs do not last, aircraft 1 lands with 7.1 kJ"},
		"a total does not last": {false, 10, 264, 400, 42e3, 29e3, "budget of 42 kJ (ceiling) accepted from slot 10; the floor is 29 kJ, " +
			"covered until slot 264 of 400: the budget does not last, aircraft 1 lands with 7.1 kJ"},
		"before take-off": {false, 0, 264, -400, 0, 29e3, "budget of 42 kJ (ceiling) accepted from slot 0; the floor is 29 kJ (not yet " +
			"measured), covered until slot 264 of 400: the packs do not last, aircraft 1 lands with 7.1 kJ"},
		"no status": {false, 10, 264, 0, 0, 29e3, "budget of 42 kJ (ceiling) accepted from slot 10; the floor is 29 kJ, covered until " +
			"slot 264, aircraft 1 lands with 7.1 kJ"},
		"not from its slot on": {false, 10, 9, 400, 42e3, 29e3, "budget of 42 kJ (ceiling) accepted from slot 10; the floor is 29 kJ, " +
			"NOT COVERED: too few stay in the air from the first slot on, aircraft 1 lands with 7.1 kJ"},
	} {
		a := telemetry.Ack{
			Accepted: true, EffectiveSlot: &c.slot, EnergyJ: new(42e3), Mode: telemetry.ModeCeiling, Saturated: &c.saturated,
			FloorJ:           &c.floorJ,
			CoveredUntilSlot: &c.covered, Aircraft: []telemetry.AckAircraft{{Number: 1, LeftAtTouchdownJ: 7100}},
		}
		var s *telemetry.Status
		switch {
		case c.slots > 0:
			s = &telemetry.Status{Slots: c.slots}
		case c.slots < 0:
			s = &telemetry.Status{Slots: -c.slots, Slot: -1}
		}
		if got := (Request{Budget: &telemetry.Budget{EnergyJ: c.energyJ}}).Answer(a, s); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
