package leader

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"prefdt/firmware/ledger"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/telemetry"
)

// calm watches that no slot is missed and no setpoint outlives its two slots,
// until the function that it returns is called. Where the machine itself was
// late, that says nothing about the leader, and the test is skipped.
func (r *rig) calm(f *flight) (check func()) {
	r.t.Helper()
	stalled, missed := f.fleet.Counts().Stalled, r.await("status", anyStatus).MissedSlots
	end, late := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		worst, last := time.Duration(0), time.Now()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				worst, last = max(worst, time.Since(last)), time.Now()
			case <-end:
				late <- worst
				return
			}
		}
	}()
	return func() {
		r.t.Helper()
		s, m := f.fleet.Counts().Stalled-stalled, r.await("status", anyStatus).MissedSlots-missed
		close(end)
		if worst := <-late; worst > f.slotWall()/5 {
			r.t.Skipf("this machine lets a program wait %v: %d slots missed, %d setpoints too old", worst.Round(time.Millisecond), m, s)
		}
		if s+m > 0 {
			r.t.Errorf("%d slots missed, %d times a setpoint outlived two slots", m, s)
		}
	}
}

// client is one more program on the broker.
func (r *rig) client(t *testing.T, name string) *telemetry.Client {
	c := &telemetry.Client{Broker: r.config.Broker, Name: name, Log: slog.New(slog.DiscardHandler)}
	if err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// transactions is how many the ledger has had: the greater of the two that
// bbolt's two meta pages name.
func (r *rig) transactions() int {
	r.t.Helper()
	raw, err := os.ReadFile(ledger.Path(r.config.StateDir))
	if err != nil {
		r.t.Fatal(err)
	}
	const txid = 64 // in the page: after its header, and the meta's eight fields
	page := os.Getpagesize()
	return int(max(binary.NativeEndian.Uint64(raw[txid:]), binary.NativeEndian.Uint64(raw[page+txid:])))
}

// Three hundred commands in one burst cost no slot: they share transactions.
func TestBurstOfCommands(t *testing.T) {
	r := newRigAt(t, 2, 100000, 200)
	f := r.launch()
	r.takeOff()
	r.await("slot 2", at(2))
	const most = 300
	calm := r.calm(f)
	before, first := r.transactions(), r.await("status", anyStatus).Slot
	began := time.Now()
	for i := range most {
		r.publishRaw(r.topics.Preference(), fmt.Sprintf(`{"id":"burst%d","setting":%.3f}`, i, float64(i)/float64(most)))
	}
	acked := func() (n int) {
		for i := range most {
			n += len(r.acks[fmt.Sprintf("burst%d", i)])
		}
		return n
	}
	if !r.until(func() bool { return acked() == most }) {
		t.Fatalf("%d of %d were acknowledged", acked(), most)
	}
	t.Logf("%d acknowledged after %v", most, time.Since(began).Round(time.Millisecond))
	s := r.await("status", anyStatus)
	// One for each slot, and a few for the burst, as it came in.
	if n := r.transactions() - before; n > most/5+s.Slot-first {
		t.Errorf("%d commands in %d slots took %d transactions", most, s.Slot-first, n)
	}
	s = r.await("three slots on", at(s.Slot+3))
	calm()
	if s.Setting < 0.99 || s.State != telemetry.StateFlying {
		t.Errorf("after the last of them: %+v", s)
	}
}

// 4,096 users report in one slot, and each is told, by the shipped policy.
func TestFullSlot(t *testing.T) {
	frozen, err := checkpoint.Load("../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	r := newRigAt(t, 2, 100000, 1000)
	r.config.ReportByMS, r.config.DecideByMS = 500, 800
	if r.policy, err = inference.New(frozen, inference.Dispatch); err != nil {
		t.Fatal(err)
	}
	r.mute = true
	f := r.launch()
	r.takeOff()
	s := r.await("slot 0", at(0))
	calm := r.calm(f)
	crowd := r.client(t, "crowd")
	rng := rand.New(rand.NewPCG(1, 2))
	n := s.Slot + 2
	if !r.until(func() bool { return r.opened(n) }) {
		t.Fatal("no beacon")
	}
	for u := range telemetryUsersMax + 10 { // ten too many
		report := telemetry.Report{
			Slot: n, PositionM: [2]float64{1000 * rng.Float64(), 1000 * rng.Float64()}, CPUHz: 1e9,
			Task: &telemetry.Task{Bits: 5e5 + 1e6*rng.Float64(), CyclesPerBit: 1000, DeadlineS: 0.5 + rng.Float64()},
		}
		payload, _ := json.Marshal(report)
		crowd.Publish(telemetry.Publication{Topic: r.topics.Report(fmt.Sprintf("c%d", u)), Payload: payload})
	}
	s = r.await("the slot settled", at(n))
	for _, c := range r.status {
		if c.Slot == n {
			s = c
		}
	}
	r.await("two slots on", at(n+2))
	t.Logf("%d heard, decided in %.1f ms", s.UsersHeard, s.DecisionMS)
	calm()
	if s.UsersHeard != telemetryUsersMax {
		t.Errorf("%d users heard, want %d", s.UsersHeard, telemetryUsersMax)
	}
	if !r.until(func() bool { return r.told[n] == telemetryUsersMax }) {
		t.Errorf("%d users were told", r.told[n])
	}
}

// One client that says 10,000 things a second, of all kinds, costs nobody a slot
// and no report; what it says wrongly is counted.
func TestFlood(t *testing.T) {
	const perSecond, seconds = 10000, 3
	r := newRigAt(t, 2, 100000, 200)
	f := r.launch()
	r.takeOff()
	r.await("slot 2", at(2))
	calm, refused := r.calm(f), f.broker.rejects.Total()
	flood := r.client(t, "flood")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	first := r.await("status", anyStatus).Slot
	said := [4]int{}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < seconds*time.Second; {
		<-tick.C
		for sum := said[0] + said[1] + said[2] + said[3]; float64(sum) < perSecond*time.Since(began).Seconds(); sum++ {
			k := sum % 4
			said[k]++
			topic, payload := r.topics.Report("flood"), `{"slot":`
			switch k {
			case 1:
				payload = fmt.Sprintf(`{"slot":%d,"position_m":[1,1],"queue_bits":0,"cpu_hz":1e9}`, sum)
			case 2:
				topic, payload = r.topics.Result("flood"), fmt.Sprintf(`{"slot":%d,"completion_s":59,"by":"local"}`, sum)
			case 3:
				topic, payload = r.topics.Preference(), `{"id":"flood","setting":2}`
			}
			flood.Publish(telemetry.Publication{Topic: topic, Payload: []byte(payload)})
		}
	}
	last := r.await("status", anyStatus)
	runtime.ReadMemStats(&after)
	lost := flood.Dropped()["publications"]
	t.Logf("%v said, %d of them lost by the client itself, %d more refused by the leader, heap %d MB more", said, lost, f.broker.rejects.Total()-refused, (int64(after.HeapAlloc)-int64(before.HeapAlloc))>>20)
	calm()
	if !r.eventually(func() bool { return f.broker.rejects.Total()-refused+lost >= uint64(said[0]+said[3]) }) {
		t.Errorf("%d were refused", f.broker.rejects.Total()-refused)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, s := range r.status {
		if s.Slot > first && s.Slot <= last.Slot && s.UsersHeard < 4 {
			t.Errorf("in slot %d %d of 4 users were heard", s.Slot, s.UsersHeard)
		}
	}
	if last.Setting != 0.5 {
		t.Errorf("the setting is %v", last.Setting)
	}
}
