package prefdt

import (
	"fmt"
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
)

// Statistics are what rows are standardised by, archived with the network.
type Statistics struct {
	Aircraft token.Moments `json:"aircraft"`
	User     token.Moments `json:"user"` // in one aircraft's frame
}

// check returns what is wrong with the statistics of a form.
func (s *Statistics) check(f *Form) error {
	for _, r := range []struct {
		name string
		m    *token.Moments
		want int
	}{{"aircraft", &s.Aircraft, AircraftFeatures}, {"user", &s.User, len(f.UserFeatures)}} {
		if len(r.m.Mean) != r.want || len(r.m.Std) != r.want {
			return fmt.Errorf("standardisation of %s tokens has %d means and %d deviations, want %d", r.name, len(r.m.Mean), len(r.m.Std),
				r.want)
		}
		for i := range r.want {
			if !(math.Abs(r.m.Mean[i]) < 1e12) || !(r.m.Std[i] > 1e-12 && r.m.Std[i] < 1e12) {
				return fmt.Errorf("standardisation of %s feature %d is (%v, %v), want finite numbers and a positive deviation", r.name, i,
					r.m.Mean[i], r.m.Std[i])
			}
		}
	}
	return nil
}

// Builder computes the rows of a slot. It keeps no state between slots.
type Builder struct {
	physics    *physics.Constants
	statistics *Statistics // nil: rows are not standardised
	columns    []int       // of userFeatures
	row        []float64
	nearest    []int     // aircraft of each user, see assign
	users      []float64 // of each aircraft, those that it is nearest to
}

// NewBuilder returns a builder of a form's rows; without statistics they are raw.
func NewBuilder(f *Form, c *physics.Constants, s *Statistics) *Builder {
	b := &Builder{physics: c, statistics: s}
	for _, name := range f.UserFeatures {
		b.columns = append(b.columns, slices.Index(userFeatures, name))
	}
	return b
}

// assign finds each user's nearest aircraft and counts the users of each: the serving aircraft and
// U_m(t) as far as they are known before the decision. An aircraft to which there is no channel is
// lost, and nobody's nearest.
func (b *Builder) assign(s *slot.Snapshot) {
	b.nearest, b.users = b.nearest[:0], append(b.users[:0], make([]float64, len(s.Aircraft))...)
	for u := range s.Users {
		m, least := -1, math.Inf(1)
		for k := range s.Aircraft {
			if d := s.Users[u].Position.Sub(s.Aircraft[k].Position).Norm(); d < least && s.Users[u].Gain[k] > 0 {
				m, least = k, d
			}
		}
		if b.nearest = append(b.nearest, m); m >= 0 {
			b.users[m]++
		}
	}
}

// AppendSlot appends a row for each aircraft, eq. (tokuav), to aircraft: (M, AircraftFeatures). To users
// it appends each user's token in the frame of every aircraft, eq. (tokusr), with the latencies of
// eq. (physfeat), for which the users of an aircraft share its processor, one at least: (N, M, FU).
func (b *Builder) AppendSlot(aircraft, users []float32, s *slot.Snapshot) (_, _ []float32) {
	b.assign(s)
	return b.appendAircraft(aircraft, s), b.appendUsers(users, s)
}

func (b *Builder) appendAircraft(dst []float32, s *slot.Snapshot) []float32 {
	for m := range s.Aircraft {
		a := &s.Aircraft[m]
		b.row = append(b.row[:0],
			a.Position.EastM/b.physics.AreaSideM-0.5, a.Position.NorthM/b.physics.AreaSideM-0.5,
			a.RemainingJ/b.physics.BatteryCapacityJ, b.users[m]/4, a.SpeedMPS/b.physics.SpeedMaxMPS)
		dst = b.standardise(dst, func(s *Statistics) *token.Moments { return &s.Aircraft })
	}
	return dst
}

func (b *Builder) appendUsers(dst []float32, s *slot.Snapshot) []float32 {
	const longestS, largestRatio = 10, 20 // of an upload that hardly moves
	for u := range s.Users {
		user := &s.Users[u]
		local := user.Task.LocalTimeS(user.CPUHz)
		for m := range s.Aircraft {
			a := &s.Aircraft[m]
			to := user.Position.Sub(a.Position)
			distance := to.Norm()
			north, east := 0.0, 0.0
			if distance > 1e-9 {
				north, east = to.NorthM/distance, to.EastM/distance
			}
			own := 0.0
			if b.nearest[u] == m {
				own = 1
			}
			offload := user.Task.OffloadTimeS(b.physics.EqualShare(max(user.Gain[m], 1e-20), a.CPUHz, max(b.users[m], 1)))
			all := [...]float64{
				distance / 1000, math.Atan2(north, east), user.Task.Bits / 1e6, user.Task.CyclesPerBit / 1000, user.Task.DeadlineS,
				user.QueueBits / 1e6,
				math.Log10(max(user.Gain[m], 1e-20)), local, min(offload, longestS), local / user.Task.DeadlineS,
				min(offload/local, largestRatio),
				east, north, math.Log(min(offload/local, 1e3)), own,
			}
			b.row = b.row[:0]
			for _, k := range b.columns {
				b.row = append(b.row, all[k])
			}
			dst = b.standardise(dst, func(s *Statistics) *token.Moments { return &s.User })
		}
	}
	return dst
}

// featureLimit bounds standardised features, so that values outside the corpus do not
// drive the network far from what it was trained on.
const featureLimit = 8

func (b *Builder) standardise(dst []float32, of func(*Statistics) *token.Moments) []float32 {
	if b.statistics == nil {
		for _, x := range b.row {
			dst = append(dst, float32(x))
		}
		return dst
	}
	m := of(b.statistics)
	for i, x := range b.row {
		dst = append(dst, Standardise(m, i, x))
	}
	return dst
}

// Standardise returns feature i in standard deviations from its mean.
func Standardise(m *token.Moments, i int, x float64) float32 {
	return float32(min(max((x-m.Mean[i])/m.Std[i], -featureLimit), featureLimit))
}

// Polar maps a move in units of D_max to the published flight action: length [0, 1] and
// heading [0, 2 pi), each rescaled to [-1, 1].
func Polar(east, north float64) (length, heading float32) {
	phi := math.Atan2(north, east)
	if phi < 0 {
		phi += 2 * math.Pi
	}
	return float32(2*min(math.Hypot(east, north), 1) - 1), float32(phi/math.Pi - 1)
}

// AppendAction appends the row of the action token: each aircraft's flight action, how
// many users it serves, and how much of their tasks. A joint action has no fixed width
// where users come and go, and the paper leaves open how it becomes a token.
func AppendAction(dst, flight []float32, servers []int, offload func(u int) float64) []float32 {
	for m := range len(flight) / 2 {
		served, rho := 0.0, 0.0
		for u, server := range servers {
			if server == m+1 {
				served++
				rho += offload(u)
			}
		}
		dst = append(dst, flight[2*m], flight[2*m+1], float32(served/4), float32(rho/max(served, 1)))
	}
	return dst
}

// AppendReturn appends the row of the return token, g^ weighted by the preference, eq.
// (rtgnorm) and (inject): what is still to come, as negative multiples of the scales eta.
func AppendReturn(dst []float32, omega, delayS, energyJ, etaDelayS, etaEnergyJ float64) []float32 {
	return append(dst, float32(-delayS/etaDelayS*omega), float32(-energyJ/etaEnergyJ*(1-omega)))
}
