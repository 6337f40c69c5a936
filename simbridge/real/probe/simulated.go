package probe

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/simnet"
)

// simulated is the simulated autopilot.
type simulated struct {
	autopilot.Config
	running *autopilot.Autopilot
}

func (s *simulated) PowerCycle(fresh bool) error {
	if s.running != nil && !fresh {
		s.running.Reboot(false)
		return nil
	}
	s.close()
	s.running = &autopilot.Autopilot{Config: s.Config}
	return s.running.Initialize()
}

func (s *simulated) close() {
	if s.running != nil {
		s.running.Close()
	}
}

// FlySimulated runs probes on a simulated autopilot, in the bubble of a test.
func FlySimulated(t *testing.T, kind Kind, probes []Probe, progress, trace io.Writer) (values Values, err error) {
	const partner = "127.0.0.1:14540"
	simnet.Bubble(t, func(*testing.T) {
		n := simnet.New(1)
		propulsion := physics.DefaultConstants().Propulsion
		s := &simulated{Config: autopilot.Config{SystemID: 1, Copter: kind == ArduPilot, Listen: "127.0.0.1:14580", Partner: partner,
			Open: n.Program("autopilot").Socket, Origin: Home, Speed: 1, CapacityJ: packJ,
			PowerW: func(_ int, v geo.Local) float64 { return propulsion.PowerW(v.HorizontalM()) },
			Log:    slog.New(slog.DiscardHandler)}}
		if kind == ArduPilot {
			s.Battery = battery.AllFields // a PX4's is the station's
		}
		endpoint, _ := n.Program("station").Endpoint("udp-listen:" + partner)
		values, err = Fly(kind, s, endpoint, probes, progress, trace)
		s.close()
		time.Sleep(time.Second)
	})
	return values, err
}

// FlySimulatedInProgram is FlySimulated for a program that is no test. It is called once.
func FlySimulatedInProgram(kind Kind, probes []Probe, progress, trace io.Writer) (values Values, err error) {
	if failed := simnet.RunAsTest(func(t *testing.T) { values, err = FlySimulated(t, kind, probes, progress, trace) }); failed != nil {
		return nil, failed
	}
	return values, err
}
