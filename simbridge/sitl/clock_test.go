package sitl

import (
	"math"
	"testing"
	"time"
)

// The autopilot's time continues over wraps, reboots and frames out of order.
func TestClockContinues(t *testing.T) {
	began := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		read []uint32 // ms, one each second of wall time
		want []int64  // ms passed; -1: out of order
	}{
		"slow":              {[]uint32{5000, 5985, 6970}, []int64{0, 985, 985}},
		"frames lost":       {[]uint32{5000, 9000}, []int64{0, 4000}},
		"a frame overtaken": {[]uint32{5000, 6000, 5980, 7000}, []int64{0, 1000, -1, 1000}},
		"rebooted":          {[]uint32{90000, 91000, 300, 1300}, []int64{0, 1000, 300, 1000}},
		"counter's end":     {[]uint32{math.MaxUint32 - 399, 600}, []int64{0, 1000}},
	} {
		var k autopilotClock
		for i, ms := range c.read {
			us, ok := k.update(ms, began.Add(time.Duration(i)*time.Second))
			if want := c.want[i]; ok != (want >= 0) || ok && us != 1000*want {
				t.Errorf("%s: reading %d gives %d us, %v; want %d ms", name, i, us, ok, want)
			}
		}
	}
	var k autopilotClock
	for i := range 11 {
		k.update(uint32(1000+985*i), began.Add(time.Duration(i)*time.Second))
	}
	if r := k.rate(); math.Abs(r-0.985) > 1e-9 {
		t.Errorf("rate %v, want 0.985", r)
	}
}
