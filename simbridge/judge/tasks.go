package judge

import (
	"slices"
	"strings"

	"prefdt/simbridge/record"
	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

// taskRules are of tasks that workers compute.
var taskRules = []Rule{
	{"worker on offer", "beacons, heartbeats of workers",
		"one that was received in the last 3 s and a slot, with what it and the world have", contract + "worker", (*check).workerOnOffer},
	{"function there", "decisions, reports, heartbeats of workers",
		"only an aircraft whose worker has had the task's function in 3 s, and the version that it names",
		contract + "tasks", (*check).functionThere},
	{"granted", "requests to workers", "none that is forged, used, expired, too large or another's is computed",
		contract + "tasks that run", (*check).granted},
	{"computed there", "what became of tasks", "each that is granted, by a worker that is well", contract + "tasks that run",
		(*check).computedThere},
	{"no faster", "what became of tasks", "what was granted, but for two chunks of 4 ms", "firmware/worker/share", (*check).noFaster},
	{"task output", "what became of tasks", "the function's, within twice what the whole takes on the device",
		"docs/tasks.md", (*check).taskOutput},
	{"hidden time", "executors that lie", "3 s until they are killed", "firmware/worker/share", (*check).hiddenTime},
}

// workerBeat is a heartbeat of an aircraft's worker.
type workerBeat struct {
	timeS float64
	telemetry.Worker
}

const workerSilentS = 3

// beatsOf are the heartbeats of a worker that may count at a moment: of the last seconds, and a slot.
func (f *flight) beatsOf(number int, timeS float64) []workerBeat {
	const slotS = 1.1
	all := f.workerBeats[number]
	return all[beatAfter(all, timeS-workerSilentS-slotS):beatAfter(all, timeS)]
}

func beatAfter(all []workerBeat, timeS float64) int {
	k, _ := slices.BinarySearchFunc(all, timeS, func(b workerBeat, t float64) int {
		if b.timeS <= t {
			return -1
		}
		return 1
	})
	return k
}

func (c *check) workerOnOffer() {
	const share = 1e-6
	if len(c.workerBeats) == 0 {
		return
	}
	for _, b := range c.beacons {
		for _, a := range b.Offer.Aircraft {
			most := 0.0
			for _, x := range c.beatsOf(a.Number, b.timeS) {
				most = max(most, x.CPUHz)
			}
			most = min(most, c.Physics.EdgeCPUHz)
			c.holds(b.timeS, a.CPUHz > 0 && a.CPUHz <= most*(1+share), "slot %d offers %.3g Hz of aircraft %d, whose worker has %.3g",
				b.Slot.Slot, a.CPUHz, a.Number, most)
		}
	}
}

func (c *check) functionThere() {
	if len(c.workerBeats) == 0 {
		return
	}
	c.decisionsOf(func(d *decision, a *aircraft) {
		r, ok := c.reports[reportKey{d.user, d.Slot}]
		if !ok || r.Task == nil || d.ReportSlot != nil {
			return
		}
		c.holds(d.timeS, slices.ContainsFunc(c.beatsOf(a.number, d.timeS), func(b workerBeat) bool { return b.has(r.Task) }),
			"user %s is sent in slot %d to aircraft %d, whose worker has not the function %q", d.user, d.Slot, a.number, r.Task.Function)
	})
}

// has reports whether a worker has a task's function, in the version that the task names, if it names one.
func (w *workerBeat) has(t *telemetry.Task) bool {
	return slices.ContainsFunc(w.Functions, func(f telemetry.WorkerFunction) bool {
		return f.ID == t.Function && (t.Digest == "" || t.Digest == f.Digest)
	})
}

func (c *check) granted() {
	for _, x := range c.computed {
		if x.Wrong == "expired" && c.excuses("worker ill", x.aircraft, x.timeS) { // it knows the slot by beacons, which are late
			continue
		}
		if x.Wrong != "" {
			c.holds(x.timeS, x.Problem != "", "the worker of aircraft %d computes what %s asks of it in slot %d, with a grant that is %s",
				x.aircraft, x.User, x.Slot, x.Wrong)
		}
	}
}

func (c *check) computedThere() {
	failed := task.Failed.String() // which nothing makes these functions do
	for _, x := range c.computed {
		if x.Wrong == "" && x.aircraft > 0 && x.Bytes > 0 && (x.Problem == "" || strings.Contains(x.Problem, failed) ||
			!c.excuses("worker ill", x.aircraft, x.timeS) && !c.excusesAny(0, x.timeS, "broker away", "leader away")) {
			c.holds(x.timeS, x.Problem == "", "the worker of aircraft %d does not compute the task of %s in slot %d: %s", x.aircraft,
				x.User, x.Slot, x.Problem)
		}
	}
}

func (c *check) noFaster() {
	const chunksS, share = 0.008, 0.01
	cyclesPerBit := map[reportKey]float64{}
	for key, r := range c.reports {
		if r.Task != nil {
			cyclesPerBit[key] = r.Task.CyclesPerBit
		}
	}
	for _, x := range c.computed {
		if x.Problem != "" || x.aircraft == 0 || x.Bytes == 0 || x.By != telemetry.ByDecision ||
			c.excuses("worker ill", x.aircraft, x.timeS) {
			continue
		}
		grantedS := 8 * float64(x.Bytes) * cyclesPerBit[reportKey{x.User, x.Slot}] / x.CPUHz
		least := (1-share)*grantedS - chunksS*c.Physics.EdgeCPUHz/x.CPUHz
		c.atMost(x.timeS, least, max(x.EdgeS, 1e-9), "the worker of aircraft %d takes %.3f s for the task of %s, of %.3f granted",
			x.aircraft, x.EdgeS, x.User, grantedS)
	}
}

func (c *check) taskOutput() {
	const slackS = 0.3
	for _, x := range c.computed {
		c.holds(x.timeS, !x.Garbled, "what %s has of its task in slot %d is not the function's output", x.User, x.Slot)
		if x.WholeS > 0 { // else it waits for the answer alone
			c.atMost(x.timeS, x.TookS, 2*x.WholeS+slackS, "%s has its task of slot %d after %.2f s, which takes %.2f there", x.User, x.Slot,
				x.TookS, x.WholeS)
		}
	}
}

func (c *check) hiddenTime() {
	const mostS = 3
	for _, x := range c.faults {
		lies := c.fault(x.aircraft, "worker_lies") // else it may tell the truth again, before it is looked at
		if x.kind == record.ExecutorLies && lies.contains(x.fromS) && lies.contains(x.fromS+mostS) && x.fromS+mostS < c.slotsEndS() {
			c.within(x.fromS, x.toS, mostS, "an executor of aircraft %d hides its CPU time for %.1f s", x.aircraft, x.toS-x.fromS)
		}
	}
}

// keepsTask reports whether a user has to compute by itself what not every worker can: the exact dispatch knows of no functions.
func (f *flight) keepsTask(b *beacon, x *dispatched) bool {
	for i, name := range x.names {
		task := f.reports[reportKey{name, b.Slot.Slot}].Task
		for _, a := range x.snapshot.Aircraft {
			if d := x.decided[i]; task.Function != "" && d != nil && d.Aircraft == 0 &&
				!slices.ContainsFunc(f.beatsOf(a.Number, b.timeS), func(w workerBeat) bool { return w.has(task) }) {
				return true
			}
		}
	}
	return false
}
