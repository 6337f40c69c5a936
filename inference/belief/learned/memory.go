package learned

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Sizes of a memory.
const (
	maxUsers     = 4096
	maxSoundings = 24 // of a user
	maxUploads   = 16 // of a user, whose gains say more, for they carry no fading
	maxTimings   = 8  // of a user's results
)

// Surroundings is what is configured of a mission.
type Surroundings struct {
	Physics  *physics.Constants
	Sounding bool // reported gains carry fading
	Wind     bool
	Payload  bool    // flight power may differ from the model's by a factor
	SensorSD float64 // standard deviation of what current sensors read over the truth; 0: they are exact
	Slow     float64 // speed of a throttled CPU over the reported one; 0: CPUs are as reported
}

// Memory is what arrived in the last Window slots, the present one included. What is
// older cannot be read from it.
type Memory struct {
	Surroundings
	Window int

	radio radio
	users map[int]*user
	ends  user  // of the list of users by when they were last seen: next is the longest ago
	free  *user // a list by next

	forgotten user // one that there is no memory for, in its slot
	wind      *windGrid
	slot      int // the present one

	present []observation // of one user, by aircraft

	Links      Batch // of users with a task in the present slot, in order, with each aircraft
	LinkPriors []Link
	Phones     Batch // of those users
}

// user is the memory of one user.
type user struct {
	id             int
	seen           int // slot of its last report
	cpuHz          float64
	position       physics.Position
	soundings      [maxSoundings]observation // a ring, as the others
	sounded        int                       // in all
	uploads        [maxUploads]observation
	uploaded       int
	timings        [maxTimings]timing
	timed          int
	previous, next *user
}

// NewMemory returns an empty memory of so many slots.
func NewMemory(s Surroundings, window int) *Memory {
	m := &Memory{Surroundings: s, Window: window, radio: newRadio(s.Physics), users: map[int]*user{}}
	m.ends.previous, m.ends.next = &m.ends, &m.ends
	m.wind = newWindGrid(&s, window, anyWind())
	return m
}

// Reset forgets everything, for another mission.
func (m *Memory) Reset() {
	for m.ends.next != &m.ends {
		m.remove(m.ends.next)
	}
	m.wind.reset()
}

func (u *user) unlink() { u.previous.next, u.next.previous = u.next, u.previous }

func (m *Memory) remove(u *user) {
	u.unlink()
	delete(m.users, u.id)
	u.next, m.free = m.free, u
}

// report returns the memory of a user that reports, new for a new one. The user seen
// longest ago makes way for one too many.
func (m *Memory) report(r *slot.User, now int) *user {
	u := m.users[r.ID]
	if u == nil {
		if len(m.users) == maxUsers {
			m.remove(m.ends.next)
		}
		if u = m.free; u == nil {
			u = &user{}
		} else {
			m.free = u.next
		}
		u.id, u.sounded, u.uploaded, u.timed, u.position = r.ID, 0, 0, 0, r.Position
		m.users[r.ID] = u
	} else {
		u.unlink()
	}
	u.previous, u.next = m.ends.previous, &m.ends
	u.previous.next, m.ends.previous = u, u
	walkedM := r.Position.Sub(u.position).Norm()
	for i := range min(u.sounded, maxSoundings) {
		u.soundings[i].walkedM += walkedM
	}
	for i := range min(u.uploaded, maxUploads) {
		u.uploads[i].walkedM += walkedM
	}
	u.seen, u.cpuHz, u.position = now, r.CPUHz, r.Position
	return u
}

// remember puts an observation into a ring that had so many in all.
func remember(ring []observation, had *int, o observation) {
	ring[*had%len(ring)] = o
	*had++
}

// newer returns the number of the newest observations of a ring, counted from the newest,
// that arrived after a slot.
func newer(ring []observation, had, slot int) (count int) {
	for count < min(had, len(ring)) && ring[(had-1-count)%len(ring)].arrived > slot {
		count++
	}
	return count
}

// Observe remembers what a slot's snapshot shows and fills what the networks read.
func (m *Memory) Observe(s *slot.Snapshot) {
	m.remember(s)
	m.query(s, s.Users)
}

// remember remembers what a slot's snapshot shows but the soundings of its users with a
// task, which query does.
func (m *Memory) remember(s *slot.Snapshot) {
	for m.ends.next != &m.ends && (m.ends.next.seen <= s.Slot-m.Window || m.ends.next.seen > s.Slot) {
		m.remove(m.ends.next)
	}
	m.slot = s.Slot
	m.query(s, nil)
	if m.Wind || m.Payload {
		m.wind.observe(s)
	}
	if !m.Sounding && m.Slow == 0 {
		return
	}
	for _, users := range [2][]slot.User{s.Users, s.IdleUsers} {
		for i := range users {
			m.report(&users[i], s.Slot)
		}
	}
	for i := range s.Results {
		m.observeResult(&s.Results[i], s.Slot)
	}
	for i := range s.IdleUsers {
		m.observeSoundings(s, &s.IdleUsers[i], false)
	}
}

// query fills what the networks read of some of a snapshot's users, and remembers their
// soundings. It is called once for each user that has a task.
func (m *Memory) query(s *slot.Snapshot, users []slot.User) {
	m.Links.Reset()
	m.Phones.Reset()
	m.LinkPriors = m.LinkPriors[:0]
	for i := range users {
		m.observeSoundings(s, &users[i], true)
		m.queryPhone(s, &users[i])
	}
}

func (m *Memory) observeResult(r *slot.Result, now int) {
	u := m.users[r.User]
	if u == nil || r.Slot < now-m.Window || r.Slot > now {
		return
	}
	if m.Slow > 0 && r.LocalS > 0 && r.LocalCycles > 0 && u.cpuHz > 0 {
		u.timings[u.timed%maxTimings] = newTiming(r, u.cpuHz, m.Slow, now)
		u.timed++
	}
	if up := &r.Upload; m.Sounding && up.S > 0 && up.Bits > 0 && up.BandwidthShare > 0 {
		to := up.Aircraft.Sub(up.User)
		read := m.radio.read(up.Gain(&m.Physics.Channel), to.Norm(), true)
		o := m.radio.observe(&read, to, true)
		o.arrived, o.slot, o.walkedM = now, r.Slot, u.position.Sub(up.User).Norm()
		remember(u.uploads[:], &u.uploaded, o)
	}
}

// observeSoundings remembers a user's soundings of a slot and, if it has a task, adds
// the queries of its links.
func (m *Memory) observeSoundings(s *slot.Snapshot, r *slot.User, query bool) {
	if !m.Sounding {
		return
	}
	u := m.users[r.ID]
	if u == nil { // there are more users than are remembered
		u = &m.forgotten
		u.sounded, u.uploaded = 0, 0
	}
	m.present = m.present[:0]
	for a := range s.Aircraft {
		to := s.Aircraft[a].Position.Sub(r.Position)
		read := m.radio.unread(to.Norm())
		if r.ReportedGain(a) {
			read = m.radio.read(r.Gain[a], to.Norm(), false)
		}
		o := m.radio.observe(&read, to, false)
		o.arrived, o.slot = s.Slot, s.Slot
		if r.ReportedGain(a) {
			remember(u.soundings[:], &u.sounded, o)
		}
		m.present = append(m.present, o)
		if query {
			var l Link
			l, m.Links.Queries = m.radio.link(&read, to.Norm(), m.Links.Queries)
			m.Links.Queries = u.appendNearestUpload(m.Links.Queries, &o, s.Slot, s.Slot-m.Window)
			m.LinkPriors = append(m.LinkPriors, l)
		}
	}
	if !query {
		return
	}
	old := s.Slot - m.Window
	sounded, uploaded := newer(u.soundings[:], u.sounded, old), newer(u.uploads[:], u.uploaded, old)
	for a := range m.present {
		for k := range sounded {
			m.Links.Rows = u.soundings[(u.sounded-1-k)%maxSoundings].appendRow(m.Links.Rows, &m.present[a], s.Slot)
		}
		for k := range uploaded {
			m.Links.Rows = u.uploads[(u.uploaded-1-k)%maxUploads].appendRow(m.Links.Rows, &m.present[a], s.Slot)
		}
		m.Links.Counts = append(m.Links.Counts, sounded+uploaded)
	}
}

func (m *Memory) queryPhone(s *slot.Snapshot, r *slot.User) {
	u := m.users[r.ID]
	if m.Slow == 0 {
		return
	}
	count := 0
	if u != nil {
		for ; count < min(u.timed, maxTimings); count++ {
			o := &u.timings[(u.timed-1-count)%maxTimings]
			if o.arrived <= s.Slot-m.Window {
				break
			}
			m.Phones.Rows = o.appendRow(m.Phones.Rows, s.Slot)
		}
	}
	m.Phones.Queries = append(m.Phones.Queries, 1, float32(-math.Log(m.Slow)))
	m.Phones.Counts = append(m.Phones.Counts, count)
}
