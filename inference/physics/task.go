package physics

import "math"

// Task is one user's task in a slot, the tuple (D_u, C_u, tau_u) of Sec. III.
type Task struct {
	Bits         float64 `json:"bits"`           // D_u
	CyclesPerBit float64 `json:"cycles_per_bit"` // C_u
	DeadlineS    float64 `json:"deadline_s"`     // tau_u, seconds from the start of the slot
}

// Cycles returns the CPU cycles of the whole task.
func (t Task) Cycles() float64 { return t.Bits * t.CyclesPerBit }

// Share is what an aircraft gives one of its users: a CPU frequency and an uplink rate.
type Share struct {
	CPUHz   float64 // f_{m,u}
	RateBPS float64 // R_{u,m}
}

// EqualShare returns the share of one of an aircraft's served users, by eq. (rate)
// and the equal split of Sec. III.
func (c *Constants) EqualShare(gain, edgeCPUHz, served float64) Share {
	n := max(served, 1)
	bandwidth := c.Channel.BandwidthHz
	if c.Contention {
		bandwidth /= n
	}
	return Share{CPUHz: edgeCPUHz / n, RateBPS: c.Channel.RateBPS(gain, bandwidth)}
}

// LocalTimeS returns the time of the whole task on the user's CPU, eq. (tloc) at rho=0.
func (t Task) LocalTimeS(userCPUHz float64) float64 { return t.Cycles() / userCPUHz }

// OffloadTimeS returns the time of the whole task over the uplink and on the
// aircraft's CPU, eq. (toff) at rho=1.
func (t Task) OffloadTimeS(s Share) float64 { return t.Bits/s.RateBPS + t.Cycles()/s.CPUHz }

// CompletionS returns the completion time max(T_loc, T_off) at the offload ratio rho;
// localS and offloadS are the times of the whole task.
func CompletionS(localS, offloadS, rho float64) float64 {
	return max((1-rho)*localS, rho*offloadS)
}

// EdgeJ returns the edge energy kappa f^2 rho D C of a task with offload ratio rho.
func (c *Constants) EdgeJ(t Task, s Share, rho float64) float64 {
	return c.SwitchedCapacitance * s.CPUHz * s.CPUHz * rho * t.Cycles()
}

// BalancedOffload returns the ratio of least delay: both parts finish together.
func BalancedOffload(localS, offloadS float64) float64 { return localS / (localS + offloadS) }

// LeastOffloadForDeadline returns the least ratio that meets the deadline, and false
// if none does, or if the deadline is met without offloading.
func LeastOffloadForDeadline(localS, offloadS, deadlineS float64) (rho float64, ok bool) {
	if localS <= deadlineS {
		return 0, false
	}
	// By rounding, the local part may take slightly longer than the deadline; step
	// it below. The steps are of the fraction kept: next to a fraction offloaded of
	// 1e-9 floating-point steps are so fine that millions of them change nothing.
	keep := deadlineS / localS
	for keep*localS > deadlineS {
		keep = math.Nextafter(keep, 0)
	}
	for rho = 1 - keep; (1-rho)*localS > deadlineS; { // 1-keep may have been rounded, too
		rho = math.Nextafter(rho, 1)
	}
	return rho, rho*offloadS <= deadlineS
}

// PenalizedDelayS returns the delay that a task counts for: its completion time, plus
// the penalty chi if that misses the deadline.
func (c *Constants) PenalizedDelayS(t Task, completionS float64) float64 {
	if completionS > t.DeadlineS {
		return completionS + c.PenaltyS
	}
	return completionS
}
