package physics

import "math"

// Task is the tuple (D_u, C_u, tau_u) of Sec. III.
type Task struct {
	Bits         float64 `json:"bits"`           // D_u
	CyclesPerBit float64 `json:"cycles_per_bit"` // C_u
	DeadlineS    float64 `json:"deadline_s"`     // tau_u, seconds from the start of the slot
}

// Cycles returns the work of the whole task.
func (t Task) Cycles() float64 { return t.Bits * t.CyclesPerBit }

// Share is what one of an aircraft's users gets: a CPU frequency and an uplink rate.
type Share struct {
	CPUHz   float64 // f_{m,u}
	RateBPS float64 // R_{u,m}
}

// EqualShare returns the share of one user when its aircraft serves that many,
// eq. (rate) and the equal split of Sec. III.
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

// OffloadTimeS returns the time of the whole task over the uplink and on the edge,
// eq. (toff) at rho=1.
func (t Task) OffloadTimeS(s Share) float64 { return t.Bits/s.RateBPS + t.Cycles()/s.CPUHz }

// CompletionS returns max(T_loc, T_off) when a fraction rho is offloaded.
func CompletionS(localS, offloadS, rho float64) float64 {
	return max((1-rho)*localS, rho*offloadS)
}

// EdgeJ returns the edge energy kappa f^2 rho D C of one offloaded task.
func (c *Constants) EdgeJ(t Task, s Share, rho float64) float64 {
	return c.SwitchedCapacitance * s.CPUHz * s.CPUHz * rho * t.Cycles()
}

// BalancedOffload returns the fraction at which both parts finish together, the least delay.
func BalancedOffload(localS, offloadS float64) float64 { return localS / (localS + offloadS) }

// LeastOffloadForDeadline returns the least fraction that meets the deadline, and false
// if no fraction does, or none is needed.
func LeastOffloadForDeadline(localS, offloadS, deadlineS float64) (rho float64, ok bool) {
	if localS <= deadlineS {
		return 0, false
	}
	// The local part may take the deadline and a rounding: nudge it under. It is
	// the fraction kept that is nudged, for one offloaded of 1e-9 has steps so
	// fine that millions of them change nothing.
	keep := deadlineS / localS
	for keep*localS > deadlineS {
		keep = math.Nextafter(keep, 0)
	}
	for rho = 1 - keep; (1-rho)*localS > deadlineS; { // rounded, if it is over a half
		rho = math.Nextafter(rho, 1)
	}
	return rho, rho*offloadS <= deadlineS
}

// PenalizedDelayS is a slot's delay of one task: its completion plus the penalty chi
// when it misses its deadline.
func (c *Constants) PenalizedDelayS(t Task, completionS float64) float64 {
	if completionS > t.DeadlineS {
		return completionS + c.PenaltyS
	}
	return completionS
}
