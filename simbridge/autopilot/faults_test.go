package autopilot

import (
	"maps"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/simnet"
)

// hovering is a vehicle that has flown in Hold for some seconds, without a link.
func hovering() *Autopilot {
	a := &Autopilot{Config: testConfig()}
	v := newVehicle(a.Config)
	v.armed, v.groundContact, v.landed, v.flownSinceArmed = true, false, false, true
	v.body.Position.UpM, v.holdPosition.UpM = 100, 100
	a.vehicle = v
	fly(v, 10)
	return a
}

func fly(v *vehicle, seconds float64) {
	for range int(seconds * 1e6 / stepUS) {
		v.step()
	}
}

func TestReboot(t *testing.T) {
	for name, c := range map[string]struct {
		inAir  bool
		falls  bool
		consHJ int32
	}{
		"motors stop":     {false, true, 0},
		"restored in air": {true, false, 16}, // ten seconds of hover
	} {
		t.Run(name, func(t *testing.T) {
			a := hovering()
			v := a.vehicle
			drawn := v.battery.Total().J()
			v.setpointUS = v.timeUS // of a stream that ends with the reboot
			a.Reboot(c.inAir)
			if !v.linksCut() || v.bootMS() != 0 || v.streaming() {
				t.Errorf("silent %v, booted %d ms ago, streaming %v", v.linksCut(), v.bootMS(), v.streaming())
			}
			fly(v, 10)
			if v.linksCut() || v.bootMS() != 10_000 || v.mode != ModeHold {
				t.Errorf("silent %v, booted %d ms ago, %v", v.linksCut(), v.bootMS(), v.mode)
			}
			if v.landed != c.falls || v.armed == c.falls {
				t.Errorf("landed %v, armed %v at %v m", v.landed, v.armed, v.body.Position.UpM)
			}
			if m := batteryStatus(v).(*common.MessageBatteryStatus); m.EnergyConsumed != c.consHJ || v.battery.Total().J() < drawn {
				t.Errorf("counts %d hJ, drew %v J after %v", m.EnergyConsumed, v.battery.Total().J(), drawn)
			}
		})
	}
}

// Position holds its place under a pilot; without one it descends.
func TestPilot(t *testing.T) {
	a := hovering()
	a.SetModeByRC(ModePosition)
	fly(a.vehicle, 10)
	if up := a.vehicle.body.Position.UpM; up < 99 || up > 101 || !a.vehicle.piloted {
		t.Errorf("at %v m", up)
	}
	a.vehicle.piloted = false // the remote control is lost
	fly(a.vehicle, 10)
	if up := a.vehicle.body.Position.UpM; up > 92 {
		t.Errorf("at %v m without a pilot", up)
	}
}

// A cut link neither sends nor receives, and works again afterwards.
func TestSilence(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		p := startPeer(t, testConfig())
		p.waitMissionS(1)
		position := func() *common.MessageGlobalPositionInt {
			m, _ := p.get(&common.MessageGlobalPositionInt{}).(*common.MessageGlobalPositionInt)
			return m
		}
		const cutS = 40
		p.autopilot.CutLinks(cutS)
		from := p.autopilot.TimeS()
		p.write(&common.MessageCommandLong{TargetSystem: 3, TargetComponent: 1, Command: common.MAV_CMD_COMPONENT_ARM_DISARM, Param1: 1})
		time.Sleep(3 * time.Second)
		// What was on its way when the link was cut still arrives.
		sent := func(m *common.MessageGlobalPositionInt) float64 { return float64(m.TimeBootMs) / 1000 }
		if m, armed := position(), p.autopilot.State().Armed; m != nil && sent(m) > from || armed {
			t.Errorf("cut from %.2f s on, received %v, armed %v", from, m, armed)
		}
		p.until("position", func() bool { m := position(); return m != nil && sent(m) > from })
		if m := position(); sent(m) < from+cutS-0.01 || sent(m) > from+cutS+0.05 { // 20 ms between two
			t.Errorf("cut from %.2f s on, a position of %.2f s", from, sent(m))
		}
	})
}

// A battery message of another component of the system is relayed once, without a
// counter, if the pack itself measures nothing.
func TestExternalBattery(t *testing.T) {
	for name, c := range map[string]struct {
		fields battery.Fields
		from   sender
		taken  bool
	}{
		"of this system":    {battery.Fields{}, sender{3, 180}, true},
		"of another":        {battery.Fields{}, sender{4, 180}, false},
		"of the autopilot":  {battery.Fields{}, sender{3, 1}, false},
		"beside a real one": {battery.Fields{Current: true}, sender{3, 180}, false},
	} {
		t.Run(name, func(t *testing.T) {
			conf := testConfig()
			conf.Battery = c.fields
			v := newVehicle(conf)
			count := func(seconds float64) (n int) {
				for range int(seconds * 100) {
					v.step()
					for _, m := range v.dueMessages() {
						if b, ok := m.(*common.MessageBatteryStatus); ok && b.CurrentBattery == 1234 && b.EnergyConsumed == -1 &&
							b.Id == 255 {
							n++
						}
					}
				}
				return n
			}
			v.handleMessage(c.from, &common.MessageBatteryStatus{CurrentBattery: 1234, EnergyConsumed: 7}, &Traffic{})
			if n := count(5); (n == 1) != c.taken || n > 1 {
				t.Errorf("relayed %d times", n)
			}
		})
	}
}

// twoLinks starts an autopilot with a leader on its first link, and on its second a node
// with the autopilot's system id.
func twoLinks(t *testing.T, monitorComponent byte) (a *Autopilot, leader, monitor *gomavlib.Node) {
	t.Helper()
	network := simnet.New(1)
	node := func(program, endpoint string, system, component byte) *gomavlib.Node {
		e, err := network.Program(program).Endpoint(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		n := &gomavlib.Node{Endpoints: []gomavlib.EndpointConf{e}, Dialect: common.Dialect, OutVersion: gomavlib.V2,
			OutSystemID: system, OutComponentID: component, HeartbeatDisable: true}
		if err := n.Initialize(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		return n
	}
	conf := testConfig()
	conf.on(network)
	conf.Battery, conf.SecondLink = battery.Fields{}, network.FreeAddress()
	monitor = node("monitor", "udp-listen:"+conf.SecondLink, conf.SystemID, monitorComponent)
	a = &Autopilot{Config: conf}
	if err := a.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, node("leader", "udp:"+a.Addr(), 245, 191), monitor
}

// repeat calls send every 20 ms until the test ends: what is sent before a link is open is lost.
func repeat(t *testing.T, send func()) {
	stop := make(chan struct{})
	var sending sync.WaitGroup
	t.Cleanup(func() { close(stop); sending.Wait() })
	sending.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				send()
			}
		}
	})
}

// PX4 forwards what a link receives for everyone to its other links, with its sender's ids:
// a leader receives the battery that is injected by the ground station's link twice, once as
// the autopilot's. What is for the autopilot, it keeps.
func TestForwardsToItsOtherLinks(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const batteryComponent = 180
		_, leader, monitor := twoLinks(t, batteryComponent)
		repeat(t, func() {
			leader.WriteMessageAll(&common.MessageHeartbeat{Type: common.MAV_TYPE_ONBOARD_CONTROLLER,
				Autopilot: common.MAV_AUTOPILOT_INVALID})
			monitor.WriteMessageAll(&common.MessageCommandLong{TargetSystem: 3, TargetComponent: 1, Command: common.MAV_CMD_DO_JUMP})
			monitor.WriteMessageAll(&common.MessageBatteryStatus{CurrentBattery: 1234, Voltages: [10]uint16{16000}, EnergyConsumed: 7})
		})
		type source struct {
			component byte
			id        uint8
		}
		sources, heartbeat := map[source]bool{}, false
		for timeout := time.After(20 * time.Second); len(sources) < 2 || !heartbeat; {
			select {
			case e := <-leader.Events():
				f, ok := e.(*gomavlib.EventFrame)
				if !ok {
					continue
				}
				switch m := f.Message().(type) {
				case *common.MessageBatteryStatus:
					if m.CurrentBattery == 1234 {
						sources[source{f.ComponentID(), m.Id}] = true
					}
				case *common.MessageCommandLong:
					t.Fatal("forwards a command to itself")
				}
			case e := <-monitor.Events():
				if f, ok := e.(*gomavlib.EventFrame); ok && f.SystemID() == 245 {
					heartbeat = true
				}
			case <-timeout:
				t.Fatalf("the leader received the battery from %v, the station a HEARTBEAT %v", sources, heartbeat)
			}
		}
		if want := map[source]bool{{1, math.MaxUint8}: true, {batteryComponent, 0}: true}; !maps.Equal(sources, want) {
			t.Errorf("the leader received the battery from %v, want %v", sources, want)
		}
	})
}

// A text reaches the links with a ground station alone, whichever link it answers.
func TestStatustextByLink(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		a, leader, monitor := twoLinks(t, 190)
		a.RefuseArming("Throttle is not zero")
		repeat(t, func() {
			monitor.WriteMessageAll(&common.MessageHeartbeat{Type: common.MAV_TYPE_GCS, Autopilot: common.MAV_AUTOPILOT_INVALID})
			leader.WriteMessageAll(&common.MessageCommandLong{TargetSystem: 3, TargetComponent: 1,
				Command: common.MAV_CMD_COMPONENT_ARM_DISARM,
				Param1:  1})
		})
		texts, acks := 0, 0
		for timeout := time.After(20 * time.Second); texts < 5 || acks < 5; {
			select {
			case e := <-leader.Events():
				if f, ok := e.(*gomavlib.EventFrame); ok {
					switch f.Message().(type) {
					case *common.MessageStatustext:
						t.Fatal("a text reaches a link without a ground station")
					case *common.MessageCommandAck:
						acks++
					}
				}
			case e := <-monitor.Events():
				if f, ok := e.(*gomavlib.EventFrame); ok {
					if _, ok := f.Message().(*common.MessageStatustext); ok {
						texts++
					}
				}
			case <-timeout:
				t.Fatalf("%d texts, %d acknowledgements", texts, acks)
			}
		}
	})
}

// OnReceived is called before the vehicle executes a message.
func TestOnReceived(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		received := make(chan Received, 1000)
		conf := testConfig()
		conf.OnReceived = func(h Received) {
			select {
			case received <- h:
			default:
			}
		}
		p := startPeer(t, conf)
		p.setStream(localSetpoint(velocityOnly, 0, 0, 0, 12, 3))
		p.arm()
		setpoint, command := false, false
		for deadline := time.After(30 * time.Second); !setpoint || !command; {
			select {
			case h := <-received:
				setpoint = setpoint || h.Setpoint != nil && h.Setpoint.Velocity == geo.Local{EastM: 3, NorthM: 12, UpM: 0}
				command = command || h.Command == common.MAV_CMD_COMPONENT_ARM_DISARM && h.Param[0] == 1 && !h.Armed
			case <-deadline:
				t.Fatalf("setpoint %v, command %v", setpoint, command)
			}
		}
	})
}

// A pilot's kill switch stops the motors in the air, and the vehicle falls.
func TestPilotDisarm(t *testing.T) {
	a := hovering()
	a.DisarmByRC()
	fly(a.vehicle, 10)
	if v := a.vehicle; v.armed || !v.landed || v.body.Position.UpM > 1 {
		t.Errorf("armed %v, landed %v at %v m", v.armed, v.landed, v.body.Position.UpM)
	}
}

// Only HEARTBEATs are lost, requested or not; OnHeartbeatSent is called for sent ones only.
func TestLoseHeartbeats(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		conf := testConfig()
		var mutex sync.Mutex
		var sent []Heartbeat
		conf.OnHeartbeatSent = func(h Heartbeat) {
			mutex.Lock()
			defer mutex.Unlock()
			sent = append(sent, h)
		}
		p := startPeer(t, conf)
		p.waitMissionS(2)
		const lostS = 6
		p.autopilot.LoseHeartbeats(lostS, 1, 1)
		from := p.autopilot.TimeS()
		p.until("what was sent before", func() bool {
			m, _ := p.get(&common.MessageGlobalPositionInt{}).(*common.MessageGlobalPositionInt)
			return m != nil && float64(m.TimeBootMs)/1000 > from
		})
		p.mutex.Lock()
		clear(p.last)
		p.mutex.Unlock()
		p.command(common.MAV_CMD_REQUEST_MESSAGE, 0)
		p.waitMissionS(3)
		if heartbeat := p.get(&common.MessageHeartbeat{}); heartbeat != nil {
			t.Errorf("received %v", heartbeat)
		}
		if p.get(&common.MessageGlobalPositionInt{}) == nil {
			t.Error("positions are lost, too")
		}
		p.until("a heartbeat again", func() bool { return p.get(&common.MessageHeartbeat{}) != nil })
		mutex.Lock()
		defer mutex.Unlock()
		before, within, after := 0, 0, 0
		for _, h := range sent {
			switch {
			case h.TimeS <= from: // in the same step of the simulation, too
				before++
			case h.TimeS < from+lostS:
				within++
			default:
				after++
			}
			if h.Mode != ModeHold || h.Armed {
				t.Errorf("%+v", h)
			}
		}
		if before == 0 || within > 0 || after == 0 {
			t.Errorf("%d before, %d while they are lost, %d after", before, within, after)
		}
	})
}

// Delayed datagrams arrive out of order, all of them.
func TestReorder(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		a, next := listen(t, testConfig())
		a.Reorder(1000, 0.3, 0.7, 1)
		const frames, onTheWay = 300, 100
		back, last, times := 0, int(next()[4]), map[int]int{}
		for range frames + onTheWay {
			number := last + int(int8(next()[4]-byte(last)))
			if times[number]++; number < last {
				back++
			}
			last = number
		}
		for n := 1; n <= frames; n++ { // the first may be number 0 before all others, or not
			if times[n] != 1 {
				t.Errorf("frame %d arrives %d times", n, times[n])
			}
		}
		if back < 50 || back > 150 {
			t.Errorf("%d of %d went back", back, frames+onTheWay)
		}
	})
}

// A pilot flies an aircraft in Position, and it stays where the sticks are let go.
func TestFlyByRC(t *testing.T) {
	a := hovering()
	from := a.vehicle.body.Position
	a.SetModeByRC(ModePosition)
	a.FlyByRC(geo.Local{EastM: 10})
	fly(a.vehicle, 8)
	far := a.vehicle.body.Position.EastM - from.EastM
	a.FlyByRC(geo.Local{})
	fly(a.vehicle, 8)
	if stopped := a.vehicle.body.Position.EastM - from.EastM; far < 50 || stopped < far-5 || a.vehicle.body.SpeedMPS() > 0.5 {
		t.Errorf("flew %.0f m, is %.0f m away at %.1f m/s", far, stopped, a.vehicle.body.SpeedMPS())
	}
}

// An autopilot may refuse to arm although its checks pass, and then permits it.
func TestRefuseArming(t *testing.T) {
	v := newVehicle(testConfig())
	a := &Autopilot{vehicle: v}
	a.RefuseArming("Throttle is not zero")
	v.gcsHeartbeatUS = 1 // a ground station is there, and gets the reason beside the acknowledgement
	if r := v.armOrDisarm([7]float64{1}); r != rejected || v.armed || !v.canArm() {
		t.Errorf("%v, armed %v, checks pass %v", r, v.armed, v.canArm())
	}
	if n := len(v.statusTexts); n != 1 || v.statusTexts[0].Text != "Arming denied: Throttle is not zero\t" ||
		v.statusTexts[0].Severity != common.MAV_SEVERITY_CRITICAL {
		t.Errorf("%+v", v.statusTexts)
	}
	if a.RefuseArming(""); !v.arm() {
		t.Error("still refuses")
	}
	if !a.SetParameter("COM_OBL_RC_ACT", 3) || v.params.get("COM_OBL_RC_ACT") != 3 || a.SetParameter("NO_SUCH", 1) {
		t.Error("parameters are not set as they are named")
	}
}

// A battery monitor that is slower than what is asked for sends when it measures.
func TestSlowBatteryMonitor(t *testing.T) {
	for _, everyS := range []float64{0, 2.5, 6} {
		conf := testConfig()
		conf.Battery.EveryS = everyS
		v := newVehicle(conf)
		v.streams.find(float32(batteryID)).setInterval(250e3, 0)
		n := 0
		for range 30 * 100 {
			v.step()
			for _, m := range v.dueMessages() {
				if _, ok := m.(*common.MessageBatteryStatus); ok {
					n++
				}
			}
		}
		if want := 30 / max(everyS, 0.25); math.Abs(float64(n)-want) > 0.1*want+1 {
			t.Errorf("every %v s: %d messages in 30 s, want %.0f", everyS, n, want)
		}
	}
}
