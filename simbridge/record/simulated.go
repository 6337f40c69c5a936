package record

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
)

// Kinds of faults that are no more than a moment, or that several faults have in common. Every other kind
// is a fault of simbridge/chaos, by its name.
const (
	LeaderDown  = "leader_down"  // it is killed or stopped; it ends as it is started or continued
	LeaderLoads = "leader_loads" // it was started, and reads its checkpoint: of [LeaderDown] the end is that
	BrokerDown  = "broker_down"
	CrewSilent  = "crew_silent"  // no station of the crew can reach the broker
	PilotActs   = "pilot_acts"   // an act of a pilot's, which has no end of its own
	RefusesMode = "refuses_mode" // the autopilot refuses to follow setpoints
	StaysDown   = "stays_down"   // the autopilot does not arm; it ends as it would
	// ParameterChanged is a failsafe's parameter that was changed in flight, by its name, until it is as it was.
	ParameterChanged = "parameter_changed"
	// WrongSample is a sample that is wrong, with its kind (autopilot.WrongSample); what is known of the aircraft
	// may be a second older for it.
	WrongSample = "wrong_sample"
	// HeightJump is that the height that an aircraft measures, and flies by, jumps to so many metres, its text, more than it was
	// without a jump.
	HeightJump = "height_jump"
	// NextMission begins what the crew does on the ground once the mission is over, with what it does to packs and leader.
	NextMission = "next_mission"
	// ExecutorLies is that one of a worker's executors has had 0.2 s of CPU time and hides most of it; it ends as it is killed.
	ExecutorLies = "executor_lies"
	WorkerStarts = "worker_starts" // a worker is started again
)

// Forged begins the id of a command that nobody gave who may command: unsigned, signed with another key, or
// withheld until another had its counter.
const Forged = "forged-"

// IsLeader reports whether a client of the broker is a leader, by its id.
func (f *Flight) IsLeader(client string) bool {
	return strings.HasPrefix(client, cmp.Or(f.Leader, "leader"))
}

// Vector is a place, or a velocity.
func Vector(l geo.Local) [3]float64 { return [3]float64{l.EastM, l.NorthM, l.UpM} }

func numbers(l geo.Local) [3]Number {
	return [3]Number{Number(l.EastM), Number(l.NorthM), Number(l.UpM)}
}

// StateOf is the state of a simulated aircraft.
func StateOf(s *autopilot.State) State {
	return State{PositionM: Vector(s.Position), VelocityMPS: Vector(s.Velocity), Mode: s.Mode.String(), Armed: s.Armed,
		OnGround: s.OnGround, Landed: s.Landed, Failsafe: s.Failsafe, LowPack: s.LowPack, Unready: s.Unready, SpentJ: s.Spent.J(),
		LeftJ: s.LeftJ, PackJ: s.PackJ}
}

// GotOf is what a simulated aircraft received.
func GotOf(r *autopilot.Received) *Got {
	g := &Got{Target: r.Target, Mode: r.Mode.String(), Armed: r.Armed, Landed: r.Landed, Position: Vector(r.Position),
		Velocity: Vector(r.Velocity)}
	switch {
	case r.Setpoint != nil:
		g.Setpoint = &Setpoint{numbers(r.Setpoint.Position), numbers(r.Setpoint.Velocity)}
	case r.Command != 0:
		g.Command = r.Command.String()
		for _, x := range r.Param {
			g.Param = append(g.Param, Number(x))
		}
		g.Harmless = r.Command == common.MAV_CMD_REQUEST_MESSAGE || r.Command == common.MAV_CMD_SET_MESSAGE_INTERVAL
	default:
		g.Other, g.Harmless = otherName(r.Other)
	}
	return g
}

// HeartbeatOf is a HEARTBEAT of a simulated aircraft.
func HeartbeatOf(h autopilot.Heartbeat) *Heartbeat {
	return &Heartbeat{Mode: h.Mode.String(), Armed: h.Armed, Failsafe: h.Failsafe}
}

// otherName is the name of a message that is neither a setpoint nor a command for its aircraft, and whether it
// changes nothing of a flight.
func otherName(m message.Message) (name string, harmless bool) {
	name = strings.TrimPrefix(fmt.Sprintf("%T", m), "*common.Message")
	switch m := m.(type) {
	case *common.MessageHeartbeat, *common.MessageParamRequestRead, *common.MessageStatustext, *common.MessageNamedValueFloat:
		harmless = true
	case *common.MessageSetPositionTargetGlobalInt:
		if m.CoordinateFrame != common.MAV_FRAME_GLOBAL_INT {
			name += " in " + m.CoordinateFrame.String()
		}
	}
	return name, harmless
}
