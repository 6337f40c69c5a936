package command

import (
	"testing"
	"time"
	"unsafe"

	"prefdt/telemetry"
)

// asleep is a time at which the wall clock is later by so much, and the monotonic clock is
// not: it stands still while the machine sleeps. No function of package time makes one.
func asleep(t time.Time, d time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(d/time.Second) << 30 // seconds of the wall clock, see time.Time
	return t
}

// A status is as old as the later of the two clocks says, and lost from its limit on; why comes with it.
func TestLink(t *testing.T) {
	received := time.Now()
	yes, no := true, false
	flying, idle := &telemetry.Status{State: telemetry.StateFlying}, &telemetry.Status{State: telemetry.StateIdle}
	for name, x := range map[string]struct {
		status *telemetry.Status
		broker bool
		online *bool
		now    time.Time
		lost   string
		blind  bool
	}{
		"just received":                        {flying, true, &yes, received, "", false},
		"just before its limit":                {flying, true, &yes, received.Add(2999 * time.Millisecond), "", false},
		"at its limit":                         {flying, true, &yes, received.Add(3 * time.Second), NoStatus, true},
		"idle, where one comes every 5 s":      {idle, true, &yes, received.Add(7999 * time.Millisecond), "", false},
		"idle, at its limit":                   {idle, true, &yes, received.Add(8 * time.Second), NoStatus, true},
		"the machine slept for an hour":        {flying, true, &yes, asleep(received.Add(time.Second), time.Hour), NoStatus, true},
		"the wall clock was set back":          {flying, true, &yes, asleep(received.Add(time.Second), -time.Hour), "", false},
		"set back, and at its limit":           {flying, true, &yes, asleep(received.Add(3*time.Second), -time.Hour), NoStatus, true},
		"nothing said of the leader":           {flying, true, nil, received, "", false},
		"the leader is offline":                {flying, true, &no, received, "the leader is offline", true},
		"the broker is gone":                   {flying, false, nil, received, "the broker is unreachable", true},
		"nothing yet":                          {nil, true, nil, received, "", true},
		"nothing, though what is kept is here": {nil, true, nil, received.Add(4 * time.Second), NoLeader, true},
		"a leader without a status":            {nil, true, &yes, received.Add(4 * time.Second), "", true},
	} {
		l := Link{StaleAfter: 3 * time.Second}
		l.SetBroker(x.broker, received)
		l.Online, l.Status, l.Received = x.online, x.status, received
		if lost, blind := l.Lost(x.now), l.Blind(x.now); lost != x.lost || blind != x.blind {
			t.Errorf("%s: %q, blind %v", name, lost, blind)
		}
	}
}
