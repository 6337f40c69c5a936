package account

import (
	"fmt"

	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// decidedResult is the result of a decision's user i if the task is computed as decided,
// without its times. The aircraft shares its bandwidth as it shares its CPU.
func (a *Account) decidedResult(d *SlotDecision, i int) slot.Result {
	u, c := &d.Snapshot.Users[i], &d.Decision.Users[i]
	r := slot.Result{User: u.ID, Slot: d.Slot, LocalCycles: u.Task.Cycles()}
	if c.Server == 0 || c.Offload == 0 {
		return r
	}
	aircraft := &d.Snapshot.Aircraft[c.Server-1]
	r.Aircraft, r.LocalCycles = aircraft.Number, (1-c.Offload)*r.LocalCycles
	if bits := c.Offload * u.Task.Bits; bits >= 1 { // less is nothing to time
		r.Upload = slot.Upload{Bits: bits, BandwidthShare: 1, User: u.Position, Aircraft: aircraft.Position}
		if a.Physics.Contention {
			r.Upload.BandwidthShare = c.CPUHz / aircraft.CPUHz
		}
	}
	return r
}

// Bounds of the times in a result.
const (
	// maxPartS is the longest time of one part: before it is over, the task's results
	// do not count any more (ExpireResults).
	maxPartS = 3
	// maxSpeedup bounds how much faster than reported a user's CPU may prove.
	maxSpeedup = 10
	// maxGain is the largest gain that a report may have, and an upload may show.
	maxGain = 1
)

// observe keeps a result for the next snapshot, or returns why its times cannot be. By an
// offer a task is computed on an aircraft and a share that only its user knows, so that
// its times show nothing.
func (a *Account) observe(e *taskEntry, res *telemetry.Result) (err error) {
	x := e.decided
	switch res.By {
	case telemetry.ByOffer:
		return nil
	case telemetry.ByLocal:
		x = slot.Result{User: x.User, Slot: x.Slot, LocalCycles: e.task.Cycles()}
	}
	x.CompletionS = res.CompletionS
	if x.LocalS, err = partS("local_s", res.LocalS, x.LocalCycles/(maxSpeedup*e.cpuHz)); err != nil {
		return err
	}
	if x.LocalS == 0 {
		x.LocalCycles = 0
	}
	leastUploadS := 0.0
	if up, channel := &x.Upload, &a.Physics.Channel; up.Bits > 0 {
		leastUploadS = up.Bits / channel.RateBPS(maxGain, up.BandwidthShare*channel.BandwidthHz)
	}
	if x.Upload.S, err = partS("upload_s", res.UploadS, leastUploadS); err != nil {
		return err
	}
	if x.Upload.S == 0 {
		x.Upload = slot.Upload{}
	}
	a.observed = append(a.observed, x)
	return nil
}

// partS returns the time of one part of a task, which takes leastS at least; 0 if it
// was not sent, or there was no such part.
func partS(field string, s *float64, leastS float64) (float64, error) {
	switch {
	case s == nil || leastS == 0:
		return 0, nil
	case !(*s >= leastS):
		return 0, &telemetry.InvalidError{Kind: "result: " + field + " too short",
			Text: fmt.Sprintf("%s is %v, want at least %v for that part of the task", field, *s, leastS)}
	case *s > maxPartS:
		return 0, &telemetry.InvalidError{Kind: "result: " + field + " too long",
			Text: fmt.Sprintf("%s is %v, want at most %v", field, *s, maxPartS)}
	}
	return *s, nil
}

// TakeResults appends the results that arrived since the last call to dst, in order of
// slot and user, and forgets them.
func (a *Account) TakeResults(dst []slot.Result) []slot.Result {
	sortResults(a.observed)
	dst = append(dst, a.observed...)
	a.observed = a.observed[:0]
	return dst
}
