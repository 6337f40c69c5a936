package fleet

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
)

const (
	ourComponent       = 191 // MAV_COMP_ID_ONBOARD_COMPUTER
	autopilotComponent = 1   // MAV_COMP_ID_AUTOPILOT1
	groundStation      = 255 // system id, by custom; it belongs on the links
)

// link is one endpoint, with the aircraft that are behind it.
type link struct {
	fleet    *Fleet
	endpoint string
	aircraft []*aircraft
	node     *gomavlib.Node
}

// ParseEndpoint reads an endpoint of the configuration.
func ParseEndpoint(text string) (gomavlib.EndpointConf, error) {
	bad := fmt.Errorf("endpoint %q: want udp-listen:host:port, udp:host:port or serial:device:baud", text)
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return nil, bad
	}
	switch scheme {
	case "udp", "udp-listen":
		host, port, err := net.SplitHostPort(rest)
		if n, e := strconv.Atoi(port); err != nil || e != nil || n < 1 || n > 65535 || host == "" {
			return nil, bad
		}
		if scheme == "udp" {
			return gomavlib.EndpointUDPClient{Address: rest}, nil
		}
		return gomavlib.EndpointUDPServer{Address: rest}, nil
	case "serial":
		at := strings.LastIndexByte(rest, ':')
		if at < 1 {
			return nil, bad
		}
		baud, err := strconv.Atoi(rest[at+1:])
		if err != nil || baud < 1200 {
			return nil, bad
		}
		return gomavlib.EndpointSerial{Device: rest[:at], Baud: baud}, nil
	}
	return nil, bad
}

func (l *link) open() error {
	conf, err := ParseEndpoint(l.endpoint)
	if err != nil {
		return err
	}
	l.node = &gomavlib.Node{
		Endpoints:  []gomavlib.EndpointConf{conf},
		Dialect:    messages,
		InKey:      l.fleet.Key,
		OutKey:     l.fleet.Key,
		OutVersion: gomavlib.V2, OutSystemID: byte(l.fleet.SystemID), OutComponentID: ourComponent,
		HeartbeatPeriod:     max(time.Millisecond, time.Duration(float64(time.Second)/l.fleet.Speed)),
		HeartbeatSystemType: int(common.MAV_TYPE_ONBOARD_CONTROLLER), HeartbeatAutopilotType: int(common.MAV_AUTOPILOT_INVALID),
	}
	if err := l.node.Initialize(); err != nil {
		return fmt.Errorf("open %s: %w", l.endpoint, err)
	}
	return nil
}

// read takes every event off the node at once: a slow reader would stall it.
func (l *link) read() {
	defer l.fleet.done.Done()
	for event := range l.node.Events() {
		l.fleet.mutex.Lock()
		switch e := event.(type) {
		case *gomavlib.EventFrame:
			l.route(e)
		case *gomavlib.EventParseError:
			l.fleet.reject("malformed frame")
		case *gomavlib.EventChannelClose:
			for _, a := range l.aircraft {
				if a.channel == e.Channel {
					a.channel = nil
				}
			}
		}
		l.fleet.mutex.Unlock()
	}
}

// greet asks for a heartbeat, which comes once a second only: a leader that was
// restarted in flight has no second to lose.
func (l *link) greet(a *aircraft, now float64, c *gomavlib.Channel) {
	for _, m := range a.request(now, &common.MessageHeartbeat{}, &common.MessageExtendedSysState{}) {
		m.TargetSystem, m.TargetComponent = uint8(a.conf.SystemID), autopilotComponent
		l.node.WriteMessageTo(c, m)
	}
}

// request asks for messages now, and not again at once.
func (a *aircraft) request(now float64, wanted ...message.Message) (out []*common.MessageCommandLong) {
	const again = 0.25
	if a.greetedS > 0 && now-a.greetedS < again {
		return nil
	}
	a.greetedS = now
	for _, m := range wanted {
		out = append(out, &common.MessageCommandLong{Command: common.MAV_CMD_REQUEST_MESSAGE, Param1: float32(m.GetID())})
	}
	return out
}

// route accepts a frame by channel, system and component.
func (l *link) route(e *gomavlib.EventFrame) {
	f := l.fleet
	system, component := int(e.SystemID()), e.ComponentID()
	if system == f.SystemID && component == ourComponent {
		f.reject("our own echo")
		return
	}
	for _, a := range l.aircraft {
		if a.conf.SystemID != system {
			continue
		}
		if component != autopilotComponent {
			f.reject(fmt.Sprintf("component %d of a system of ours", component))
			return
		}
		now := f.nowS()
		if a.channel != e.Channel {
			if a.channel != nil && now-a.heardS < staleS {
				f.reject(fmt.Sprintf("system id %d from two places", system))
				return
			}
			if _, ok := e.Message().(*common.MessageHeartbeat); !ok {
				l.greet(a, now, e.Channel) // a channel is taken by a heartbeat
				return
			}
			a.channel = e.Channel
			if !a.heard {
				a.statusS = now // it has a while to send the better of the two battery messages
			}
		}
		a.receive(f, now, e.Message())
		return
	}
	if system != groundStation {
		f.reject("system id of no aircraft here")
	}
}
