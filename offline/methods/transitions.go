package methods

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/prefdt"
	"prefdt/inference/slot"
)

// What the methods that learn read of a slot, and what they do in it. Actions are those of eq. (action),
// rescaled to [-1, 1] as in Sec. IV-B: each aircraft's length of flight, each user's association among M+1,
// and its offloaded fraction; but headings are unit vectors. As a number on [-1, 1] a heading is torn at
// 2 pi: the mean of headings to all sides would be west. And users come with the latencies of
// eq. (physfeat). Plain is the letter of the paper instead: headings are such numbers, and a
// user is what eq. (tokusr) has without the latencies, its bearing an angle.

const (
	aircraftFeatures    = 5
	fleetFeatures       = 3 // slot, number of users, omega
	taskFeatures        = 4
	userPairFeatures    = 6 // of a user and an aircraft
	flightActions       = 3 // of an aircraft: length, and the heading's east and north
	plainFlightActions  = 2 // length and heading
	objectives          = 2 // delay, energy
	loadedUsers         = 4 // that the number of users served is divided by
	gainOrders          = 2 // orders of magnitude that a gain is divided by, above
	typicalGainExponent = -11
)

func fleetWidth(aircraft int) int { return aircraftFeatures*aircraft + fleetFeatures }
func userWidth(aircraft int) int  { return taskFeatures + userPairFeatures*aircraft }

func flightWidth(plain bool) int {
	if plain {
		return plainFlightActions
	}
	return flightActions
}

// transitions are some slots as networks read them, and what was done in each: S slots with N users in
// all. What was done is before it is limited to what is possible.
type transitions struct {
	plain bool
	slots int
	fleet []float32 // (S, fleetWidth)
	users []float32 // (N, userWidth)
	first []int     // (S+1), each slot's first user, and N
	ids   []int     // (N)

	flight  []float32 // (S, flightActions M), plain (S, plainFlightActions M)
	server  []int     // (N)
	offload []float32 // (N)
}

func (x *transitions) reset() {
	x.slots, x.fleet, x.users, x.first, x.ids = 0, x.fleet[:0], x.users[:0], append(x.first[:0], 0), x.ids[:0]
	x.flight, x.server, x.offload = x.flight[:0], x.server[:0], x.offload[:0]
}

// observe appends a slot, under a preference. What is done in it comes after.
func (x *transitions) observe(c *physics.Constants, s *slot.Snapshot, omega float64) {
	for i := range s.Aircraft {
		a := &s.Aircraft[i]
		x.fleet = append(x.fleet, float32(2*a.Position.EastM/c.AreaSideM-1), float32(2*a.Position.NorthM/c.AreaSideM-1),
			float32(a.RemainingJ/c.BatteryCapacityJ), float32(a.ServedLastSlot)/loadedUsers, float32(a.SpeedMPS/c.SpeedMaxMPS))
	}
	x.fleet = append(x.fleet, float32(s.Slot)/float32(s.Slots), float32(len(s.Users))/(2*loadedUsers), float32(omega)) // omega last
	load := max(float64(len(s.Users))/float64(max(len(s.Aircraft), 1)), 1)
	for i := range s.Users {
		u := &s.Users[i]
		x.ids = append(x.ids, u.ID)
		if x.plain {
			x.observePlain(c, s, u)
			continue
		}
		localS := u.Task.LocalTimeS(u.CPUHz)
		x.users = append(x.users, float32(u.Task.Bits/1e6), float32(u.Task.DeadlineS), float32(localS),
			float32(min(localS/u.Task.DeadlineS, 10)))
		for m := range s.Aircraft {
			to := u.Position.Sub(s.Aircraft[m].Position)
			d := max(to.Norm(), 1)
			offloadS := u.Task.OffloadTimeS(c.EqualShare(u.Gain[m], s.Aircraft[m].CPUHz, load))
			x.users = append(x.users, float32(d/c.AreaSideM), float32(to.EastM/d), float32(to.NorthM/d), gainFeature(u.Gain[m]),
				float32(min(offloadS, 10)), float32(min(offloadS/localS, 10)))
		}
	}
	x.slots++
	x.first = append(x.first, len(x.ids))
}

// observePlain appends a user as eq. (tokusr) has it, in as many columns as others.
func (x *transitions) observePlain(c *physics.Constants, s *slot.Snapshot, u *slot.User) {
	x.users = append(x.users, float32(u.Task.Bits/1e6), float32(u.Task.CyclesPerBit/1000), float32(u.Task.DeadlineS),
		float32(u.QueueBits/1e6))
	for m := range s.Aircraft {
		to := u.Position.Sub(s.Aircraft[m].Position)
		x.users = append(x.users, float32(to.Norm()/c.AreaSideM), float32(math.Atan2(to.NorthM, to.EastM)/math.Pi), gainFeature(u.Gain[m]),
			0, 0, 0)
	}
}

func gainFeature(gain float64) float32 {
	return float32((math.Log10(max(gain, 1e-20)) - typicalGainExponent) / gainOrders)
}

// act appends a decision as what was done in the last slot.
func (x *transitions) act(c *physics.Constants, d *slot.Decision) {
	for _, move := range d.Move {
		length := move.Norm()
		x.flight = append(x.flight, float32(2*length/c.SpeedMaxMPS-1), float32(move.EastM/max(length, 1e-9)),
			float32(move.NorthM/max(length, 1e-9)))
	}
	for _, u := range d.Users {
		x.server, x.offload = append(x.server, u.Server), append(x.offload, float32(2*u.Offload-1))
	}
}

// append appends the slots of another from one to another, which is left out.
func (x *transitions) append(from *transitions, first, end int) {
	fleet, flight, user := len(from.fleet)/from.slots, len(from.flight)/from.slots, len(from.users)/max(len(from.ids), 1)
	firstUser, endUser, shift := from.first[first], from.first[end], len(x.ids)-from.first[first]
	x.fleet = append(x.fleet, from.fleet[first*fleet:end*fleet]...)
	x.flight = append(x.flight, from.flight[first*flight:end*flight]...)
	x.users = append(x.users, from.users[firstUser*user:endUser*user]...)
	x.ids = append(x.ids, from.ids[firstUser:endUser]...)
	x.server = append(x.server, from.server[firstUser:endUser]...)
	x.offload = append(x.offload, from.offload[firstUser:endUser]...)
	for _, n := range from.first[first+1 : end+1] {
		x.first = append(x.first, n+shift)
	}
	x.slots += end - first
}

// slotOfUser returns each user's slot.
func (x *transitions) slotOfUser() (index []int) {
	for s := range x.slots {
		for range x.first[s+1] - x.first[s] {
			index = append(index, s)
		}
	}
	return index
}

// decide writes what was done in a slot as a decision.
func (x *transitions) decide(c *physics.Constants, s *slot.Snapshot, i int, d *slot.Decision) {
	d.Resize(s)
	for u := range s.Users {
		at := x.first[i] + u
		if server := x.server[at]; server > 0 {
			d.Users[u] = slot.UserDecision{Server: server, Offload: min(max((1+float64(x.offload[at]))/2, 0), 1)}
		}
	}
	for m := range s.Aircraft {
		flight := x.flight[flightWidth(x.plain)*(i*len(s.Aircraft)+m):]
		length := c.SpeedMaxMPS * min(max((1+float64(flight[0]))/2, 0), 1)
		var east, north float64
		if x.plain {
			north, east = math.Sincos(math.Pi * (1 + min(max(float64(flight[1]), -1), 1)))
		} else {
			east, north = float64(flight[1]), float64(flight[2])
		}
		norm := max(math.Hypot(east, north), 1e-9)
		d.Move[m] = physics.Position{EastM: length * east / norm, NorthM: length * north / norm}
	}
}

// polar returns flights as length and heading, each on [-1, 1], the paper's own form.
func (x *transitions) polar() (flight []float32) {
	for i := 0; i < len(x.flight); i += flightActions {
		_, heading := prefdt.Polar(float64(x.flight[i+1]), float64(x.flight[i+2]))
		flight = append(flight, x.flight[i], heading)
	}
	return flight
}

// addPolar appends flights of that form.
func (x *transitions) addPolar(flight []float32) {
	for i := 0; i < len(flight); i += 2 {
		north, east := math.Sincos(math.Pi * (1 + float64(flight[i+1])))
		x.flight = append(x.flight, flight[i], float32(east), float32(north))
	}
}
