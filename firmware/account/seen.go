package account

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"prefdt/inference/belief"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Seen is what a decision was made on and what it believed beyond that: what a restarted
// leader remembers the slot by, and what the log has of it.
type Seen struct {
	Snapshot slot.Snapshot `json:"snapshot"`
	// Names of the snapshot's users, then of its idle ones.
	Names    []string `json:"names"`
	Believed Believed `json:"believed"`
	// UploadGain is what the timed uploads among the snapshot's results ran at; 0: none.
	UploadGain []float64 `json:"upload_gain,omitempty"`
}

// Believed is a belief.Belief in short, to four digits. What no estimator was asked for
// is empty.
type Believed struct {
	WindMPS         *[2]float64 `json:"wind_mps,omitempty"`    // mean, to the east and to the north
	WindSDMPS       float64     `json:"wind_sd_mps,omitempty"` // root mean square about it
	PowerMultiplier float64     `json:"power,omitempty"`       // of flight power over the model's at airspeed
	// By user with a task, then by aircraft in the snapshot's order.
	Gain       [][]float64 `json:"gain,omitempty"`
	GainLogSD  [][]float64 `json:"gain_log_sd,omitempty"`      // of its natural logarithm
	SlowChance []float64   `json:"slow_probability,omitempty"` // by user, that its CPU is throttled
}

// NewSeen returns a copy of a slot; names and idle are those of its users.
func NewSeen(s *slot.Snapshot, names, idle []string, b *belief.Belief, c *physics.Channel) *Seen {
	x := &Seen{Snapshot: *s, Names: slices.Concat(names, idle), Believed: believed(b)}
	x.Snapshot.SyntheticUsers = nil
	x.Snapshot.Aircraft = slices.Clone(s.Aircraft)
	x.Snapshot.Users, x.Snapshot.IdleUsers = cloneUsers(s.Users), cloneUsers(s.IdleUsers)
	x.Snapshot.Results = slices.Clone(s.Results)
	for i := range s.Results {
		gain := 0.0
		if up := &s.Results[i].Upload; up.S > 0 {
			gain = fourDigits(up.Gain(c))
		}
		x.UploadGain = append(x.UploadGain, gain)
	}
	return x
}

func cloneUsers(users []slot.User) []slot.User {
	users = slices.Clone(users)
	var gains []float64
	for i := range users {
		gains = append(gains, users[i].Gain...)
	}
	for i := range users {
		n := len(users[i].Gain)
		users[i].Gain, gains = gains[:n:n], gains[n:]
		users[i].GainMissing = slices.Clone(users[i].GainMissing)
	}
	return users
}

func believed(b *belief.Belief) (x Believed) {
	if x.PowerMultiplier = fourDigits(b.Air.Multiplier); len(b.Air.Winds) > 0 {
		mean, square := b.Air.MeanMPS(), 0.0
		for _, w := range b.Air.Winds {
			d := w.MPS.Sub(mean).Norm()
			square += w.Probability * d * d
		}
		x.WindMPS = &[2]float64{fourDigits(mean.EastM), fourDigits(mean.NorthM)}
		x.WindSDMPS = fourDigits(math.Sqrt(square))
	}
	for i := range b.Users {
		u := &b.Users[i]
		if len(u.Uncertainty.GainStdDev) > 0 {
			x.Gain, x.GainLogSD = append(x.Gain, allFourDigits(u.Gain)), append(x.GainLogSD, allFourDigits(u.Uncertainty.GainStdDev))
		}
		if u.Uncertainty.SlowCPUHz > 0 {
			x.SlowChance = append(x.SlowChance, fourDigits(u.Uncertainty.SlowProbability))
		}
	}
	return x
}

func allFourDigits(list []float64) (out []float64) {
	for _, x := range list {
		out = append(out, fourDigits(x))
	}
	return out
}

// fourDigits rounds to as many significant ones: what is believed has no more.
func fourDigits(x float64) float64 {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // of our own format
	return short
}

// Users calls f with each user that reported, its name and its ID.
func (x *Seen) Users(f func(name string, id int)) {
	for i, u := range slices.Concat(x.Snapshot.Users, x.Snapshot.IdleUsers) {
		if i < len(x.Names) {
			f(x.Names[i], u.ID)
		}
	}
}

// pending returns those of the results for the next snapshot that show a CPU or a radio,
// in the order in which TakeResults returns them: a restart must not lose them.
func (a *Account) pending() (list []slot.Result) {
	for _, r := range a.observed {
		if r.LocalS > 0 || r.Upload.S > 0 {
			list = append(list, r)
		}
	}
	sortResults(list)
	return list
}

func sortResults(list []slot.Result) {
	slices.SortFunc(list, func(x, y slot.Result) int {
		return cmp.Or(cmp.Compare(x.Slot, y.Slot), cmp.Compare(x.User, y.User))
	})
}
