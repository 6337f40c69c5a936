package leader_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"prefdt/firmware/users"
	"prefdt/inference"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// watchLateness begins to watch that every slot is opened and every setpoint renewed in time; the
// function that it returns checks it.
func watchLateness(t *testing.T, r *rig.Rig, f *rig.LeaderRun) (check func()) {
	t.Helper()
	expired, missed := f.Report().FleetCounts.ExpiredSetpoints, r.LastStatus().MissedSlots
	return func() {
		t.Helper()
		if s, m := f.Report().FleetCounts.ExpiredSetpoints-expired, r.LastStatus().MissedSlots-missed; s > 0 || m > 0 {
			t.Errorf("%d slots missed, %d times a setpoint outlived two slots", m, s)
		}
	}
}

// A decision that takes longer than a slot costs the slots that it takes, and no more.
func TestSlowDecisions(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.FlyToSlot(2)
		before := r.LastStatus()
		const decisions = 12
		for n := before.Slot; n < before.Slot+3*decisions; n += 3 {
			r.Await("the third slot", rig.SlotSettled(n))
			r.DelayNextDecision(1.25)
		}
		last := r.Await("the end", rig.SlotSettled(before.Slot+3*decisions+2))
		if m := last.MissedSlots - before.MissedSlots; m != decisions {
			t.Errorf("%d decisions took 1.25 slots each, and %d slots were missed", decisions, m)
		}
	})
}

// Three hundred commands in one burst cost no slot.
func TestBurstOfCommands(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(2)
		const most = 300
		check := watchLateness(t, r, f)
		for i := range most {
			r.PublishRaw(r.Topics.Preference(), fmt.Sprintf(`{"id":"burst%d","setting":%.3f}`, i, float64(i)/float64(most)))
		}
		acked := func() (n int) {
			for i := range most {
				n += len(r.Acks(fmt.Sprintf("burst%d", i)))
			}
			return n
		}
		if !r.Eventually(func() bool { return acked() == most }) {
			t.Fatalf("%d of %d were acknowledged", acked(), most)
		}
		s := r.Await("three slots on", rig.SlotSettled(r.LastStatus().Slot+3))
		check()
		if s.Setting < 0.99 || s.State != telemetry.StateFlying {
			t.Errorf("after the last of them: %+v", s)
		}
	})
}

// 4,096 users report in one slot, and each is sent a decision, by the shipped policy.
func TestFullSlot(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		frozen := loadCheckpoint(t)
		r := rig.New(t, 2, 100000)
		r.Config.ReportByMS, r.Config.DecideByMS = 500, 800
		var err error
		if r.Policy, err = inference.New(frozen, inference.DecoderDispatch); err != nil {
			t.Fatal(err)
		}
		r.Scales = &frozen.GoalConstants
		r.SetUsers(0, 0)
		f := r.FlyToSlot(0)
		crowd := r.Client("crowd")
		rng := rand.New(rand.NewPCG(1, 2))
		check := watchLateness(t, r, f)
		last := r.Beacons()
		n := last[len(last)-1] + 1
		if !r.Eventually(func() bool { return r.SlotOpened(n) }) {
			t.Fatal("no beacon")
		}
		for u := range users.MaxPerSlot + 10 { // ten too many
			publish(crowd, r.Topics.Report(fmt.Sprintf("c%d", u)), telemetry.Report{
				Slot: n, PositionM: [2]float64{1000 * rng.Float64(), 1000 * rng.Float64()}, CPUHz: 1e9,
				Task: &telemetry.Task{Bits: 5e5 + 1e6*rng.Float64(), CyclesPerBit: 1000, DeadlineS: 0.5 + rng.Float64()},
			})
		}
		s := r.Await("its status", rig.SlotSettled(n))
		if s.Slot != n || s.UsersHeard != users.MaxPerSlot {
			t.Errorf("%d users received in slot %d, want %d in slot %d", s.UsersHeard, s.Slot, users.MaxPerSlot, n)
		}
		if !r.Eventually(func() bool { return r.DecisionCount(n) == users.MaxPerSlot }) {
			t.Errorf("%d users were sent a decision", r.DecisionCount(n))
		}
		r.Await("two slots on", rig.SlotSettled(n+2))
		check()
	})
}

// One client that sends 10,000 messages a second, of all kinds, costs no slot and no
// command; what is invalid of them is counted.
func TestFlood(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const perSecond, seconds = 10000, 3
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(2)
		check, refused := watchLateness(t, r, f), f.RejectedMessages("")
		flood := r.Client("flood")
		first := r.LastStatus()
		sent, fullSlots := [4]int{}, 0
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); time.Since(began) < seconds*time.Second; {
			<-tick.C
			for sum := sent[0] + sent[1] + sent[2] + sent[3]; float64(sum) < perSecond*time.Since(began).Seconds(); sum++ {
				k := sum % 4
				sent[k]++
				topic, payload := r.Topics.Report("flood"), `{"slot":`
				switch k {
				case 1:
					payload = fmt.Sprintf(`{"slot":%d,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}`, sum)
				case 2:
					topic, payload = r.Topics.Result("flood"), fmt.Sprintf(`{"slot":%d,"completion_s":59,"by":"local"}`, sum)
				case 3:
					topic, payload = r.Topics.Preference(), `{"id":"flood","setting":2}`
				}
				flood.Publish(telemetry.Publication{Topic: topic, Payload: []byte(payload)})
			}
		}
		// A command amid the flood is answered.
		if ack := r.SendCommand(r.Topics.Preference(), `{"id":"amid","setting":0.5}`, "amid"); !ack.Accepted {
			t.Errorf("a command amid the flood: %+v", ack)
		}
		lost := func() (n uint64) { // what waits in a queue may be dropped still
			n = flood.Dropped().Publications
			for _, dropped := range f.Report().DroppedMessages {
				n += dropped
			}
			return n
		}
		t.Logf("%v sent, %d of them lost on the way, %d more refused by the leader", sent, lost(), f.RejectedMessages("")-refused)
		check()
		last := r.LastStatus()
		if !r.Eventually(func() bool { return f.RejectedMessages("")-refused+lost() >= uint64(sent[0]) }) {
			t.Errorf("%d were refused", f.RejectedMessages("")-refused)
		}
		for _, s := range r.Statuses() {
			if s.Slot > first.Slot && s.Slot <= last.Slot && s.UsersHeard >= 4 {
				fullSlots++
			}
		}
		if slots := last.Slot - first.Slot; fullSlots < slots {
			t.Errorf("in %d slots of %d all four users were received", fullSlots, slots)
		}
		last = r.Await("two slots on", rig.SlotSettled(r.LastStatus().Slot+2))
		if last.Setting < 0.499 || last.Setting > 0.501 {
			t.Errorf("the setting is %v", last.Setting)
		}
	})
}
