package fly

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/datagram"
)

// standInLeader flies a mission by the wire contract without a policy: every user
// offloads half to the aircraft with the greatest gain, and the aircraft fly
// east. It keeps a ledger of its own from BATTERY_STATUS.
type standInLeader struct {
	*testing.T
	program       *simnet.Program
	url           string
	linkAddresses []string // UDP addresses to bind, one for each aircraft
	slots         int
	slotMS        float64
	returnAfter   int     // the slot after which it returns by itself, where above 0
	eastM         float64 // where it believes its first aircraft
	// Reasons for which it refuses the first starts, and the answers to all of them by
	// their ids: a start that comes again is answered as before.
	refusals []string
	starts   map[string]telemetry.Ack

	client        *telemetry.Client
	topics        telemetry.Topics
	aircraftLinks []*standInLink

	mutex           sync.Mutex
	state           string
	slot            int
	reportsReceived int
	decisions       int
	budgetJ         *float64
	started         chan struct{}
}

type standInLink struct {
	node           *gomavlib.Node
	mutex          sync.Mutex
	changed        chan struct{}
	heartbeat      *common.MessageHeartbeat
	globalPosition *common.MessageGlobalPositionInt
	// The ledger: joules by the counter and by current x voltage, each message
	// standing for the quarter of a second before it.
	countedJ, integratedJ float64
}

const standInBatteryPeriodS = 0.25

// run flies until the mission is done and ctx ends.
func (l *standInLeader) run(ctx context.Context) {
	l.topics, _ = telemetry.NewTopics("test")
	if l.state == "" {
		l.state = telemetry.StateIdle
	}
	l.slot, l.started, l.starts = -1, make(chan struct{}), map[string]telemetry.Ack{}
	l.client = &telemetry.Client{
		Broker: telemetry.Broker{URL: l.url,
			Dial: l.program.Dial}, Name: "leader", Log: slog.New(slog.DiscardHandler), Retry: 20 * time.Millisecond,
		Subscriptions: []telemetry.Subscription{{Filter: l.topics.AllReports()}, {Filter: l.topics.AllCommands(), QoS: 1}},
		Handle:        l.handle,
	}
	if err := l.client.Initialize(ctx); err != nil {
		l.Error(err)
		return
	}
	defer l.client.Close()
	for i, address := range l.linkAddresses {
		c := &standInLink{changed: make(chan struct{})}
		c.node = &gomavlib.Node{
			Endpoints: []gomavlib.EndpointConf{datagram.Endpoint(l.program.Socket, address)},
			Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: 245, OutComponentID: 191,
			HeartbeatPeriod: 100 * time.Millisecond, HeartbeatSystemType: int(common.MAV_TYPE_ONBOARD_CONTROLLER),
		}
		if err := c.node.Initialize(); err != nil {
			l.Error(err)
			return
		}
		defer c.node.Close()
		go c.read()
		l.aircraftLinks = append(l.aircraftLinks, c)
		c.waitFor(ctx, func() bool { return c.heartbeat != nil && c.globalPosition != nil })
		c.command(i+1, common.MAV_CMD_SET_MESSAGE_INTERVAL, 147, standInBatteryPeriodS*1e6)
	}
	l.client.Publish(telemetry.Publication{Topic: l.topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
	for waits := true; waits; {
		l.publishStatus() // again and again: whoever comes later takes no retained one for ours
		select {
		case <-l.started:
			waits = false
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	for i, c := range l.aircraftLinks {
		c.command(i+1, common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, math.NaN(), math.NaN(), math.NaN(), 488+8)
		c.command(i+1, common.MAV_CMD_COMPONENT_ARM_DISARM, 1)
	}
	for i, c := range l.aircraftLinks {
		c.waitFor(ctx, func() bool { return c.heartbeat.CustomMode == 4<<16|3<<24 && c.globalPosition.RelativeAlt > 7000 })
		go c.streamSetpoints(ctx, i+1, l.slotMS)
	}
	for i, c := range l.aircraftLinks {
		for engaged := false; !engaged && ctx.Err() == nil; { // refused before the first setpoint
			c.command(i+1, common.MAV_CMD_DO_SET_MODE, 1, 6)
			soon, cancel := context.WithTimeout(ctx, 2*time.Second)
			engaged = c.waitFor(soon, func() bool { return c.heartbeat.CustomMode == 6<<16 })
			cancel()
		}
	}
	slots := time.NewTicker(time.Duration(l.slotMS * float64(time.Millisecond)))
	defer slots.Stop()
	returning := false
	for n := range l.slots {
		if returning = l.returnAfter > 0 && n > l.returnAfter; returning {
			break
		}
		l.openSlot(n)
		select {
		case <-slots.C:
		case <-ctx.Done():
			return
		}
		l.mutex.Lock()
		switch {
		case n == l.slots-1:
			l.state = telemetry.StateDone
		case l.returnAfter > 0 && n == l.returnAfter:
			l.state = telemetry.StateReturning
		}
		l.mutex.Unlock()
		l.publishStatus()
	}
	for i, c := range l.aircraftLinks {
		c.command(i+1, common.MAV_CMD_NAV_RETURN_TO_LAUNCH)
	}
	if returning {
		time.Sleep(10 * time.Second)
		l.mutex.Lock()
		l.state = telemetry.StateDone
		l.mutex.Unlock()
		l.publishStatus()
	}
	<-ctx.Done()
}

func (l *standInLeader) openSlot(n int) {
	l.mutex.Lock()
	l.slot, l.reportsReceived, l.state = n, 0, telemetry.StateFlying
	l.mutex.Unlock()
	offer := telemetry.Offer{PriceSPerJ: 0.01, Aircraft: []telemetry.OfferAircraft{}}
	for i := range l.aircraftLinks {
		offer.Aircraft = append(offer.Aircraft, telemetry.OfferAircraft{Number: i + 1, PositionM: [2]float64{500, 500}, CPUHz: 40e9,
			ExpectedUsers: 3})
	}
	l.publish(l.topics.Slot(), 0, false, telemetry.Slot{Slot: n, SlotMS: l.slotMS, Speed: 1000 / l.slotMS, ReportByMS: 0.3 * l.slotMS,
		DecideByMS: 0.8 * l.slotMS, Offer: offer})
}

// publish is generic over the messages by way of their encoders.
func (l *standInLeader) publish(topic string, qos byte, retained bool, m any) {
	var payload []byte
	var err error
	switch m := m.(type) {
	case telemetry.Slot:
		payload, err = telemetry.Encode(m)
	case telemetry.Decision:
		payload, err = telemetry.Encode(m)
	case telemetry.Status:
		payload, err = telemetry.Encode(m)
	case telemetry.Ack:
		payload, err = telemetry.Encode(m)
	default:
		err = fmt.Errorf("no message %T", m)
	}
	if err != nil {
		l.Error(err)
	}
	l.client.Publish(telemetry.Publication{Topic: topic, QoS: qos, Retained: retained, Payload: payload})
}

func (l *standInLeader) publishStatus() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	age := 0.1
	s := telemetry.Status{
		Slot: l.slot, Slots: l.slots, State: l.state, BudgetJ: l.budgetJ, UsersHeard: l.reportsReceived, DecisionMS: float64(l.slot + 1),
		EnergySource: telemetry.SourceEnergyConsumed, Aircraft: []telemetry.StatusAircraft{}, Challenge: telemetry.NewChallenge(),
	}
	if l.budgetJ != nil {
		mode, rest := telemetry.ModeTarget, 1.0
		s.Mode, s.RemainingJ = &mode, &rest
	}
	for i := range l.aircraftLinks {
		var at *[3]float64
		if i == 0 && l.eastM != 0 {
			at = &[3]float64{l.eastM, 500, 0}
		}
		s.Aircraft = append(s.Aircraft, telemetry.StatusAircraft{Number: i + 1, SystemID: i + 1, PositionM: at,
			EnergySource: telemetry.SourceEnergyConsumed, AgeS: &age})
	}
	l.publish(l.topics.Status(), 0, true, s)
}

func (l *standInLeader) handle(m telemetry.Message) {
	kind, id, _ := l.topics.Parse(m.Topic)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch kind {
	case telemetry.KindReport:
		r, err := telemetry.DecodeReport(m.Payload)
		if err != nil || r.Slot != l.slot {
			return
		}
		l.reportsReceived++
		if r.Task == nil {
			return
		}
		best := 1
		for number, gain := range r.Gain {
			if gain > r.Gain[best] {
				best = number
			}
		}
		l.decisions++
		l.publish(l.topics.Decision(id), 1, false, telemetry.Decision{Slot: r.Slot, Aircraft: best, Offload: 0.5, CPUHz: 10e9})
	case telemetry.KindBudget:
		b, err := telemetry.DecodeBudget(m.Payload)
		if err != nil {
			l.Error(err)
		}
		l.budgetJ = &b.EnergyJ
		saturated, floor, from := false, 1.0, l.slot+1
		l.publish(l.topics.Ack(b.ID), 1, false, telemetry.Ack{ID: b.ID, Of: telemetry.Digest(m.Payload), Accepted: true,
			EffectiveSlot: &from, Saturated: &saturated, FloorJ: &floor})
	case telemetry.KindPreference:
		p, err := telemetry.DecodePreference(m.Payload)
		if err != nil {
			l.Error(err)
		}
		l.budgetJ = nil
		from := l.slot + 1
		l.publish(l.topics.Ack(p.ID), 1, false, telemetry.Ack{ID: p.ID, Of: telemetry.Digest(m.Payload), Accepted: true,
			EffectiveSlot: &from, Setting: &p.Setting})
	case telemetry.KindMission:
		c, err := telemetry.DecodeMission(m.Payload)
		if err != nil {
			l.Error(err)
		}
		if ack, again := l.starts[c.ID]; again {
			l.publish(l.topics.Ack(c.ID), 1, false, ack)
			return
		}
		from := 0
		ack := telemetry.Ack{ID: c.ID, Of: telemetry.Digest(m.Payload), Accepted: c.Action == telemetry.ActionStart, EffectiveSlot: &from,
			Reason: "only start"}
		if n := len(l.starts); n < len(l.refusals) {
			ack.Accepted, ack.EffectiveSlot, ack.Reason = false, nil, l.refusals[n]
		}
		if ack.Accepted {
			ack.Reason = ""
			close(l.started)
		}
		l.starts[c.ID] = ack
		l.publish(l.topics.Ack(c.ID), 1, false, ack)
	}
}

func (c *standInLink) read() {
	for e := range c.node.Events() {
		f, ok := e.(*gomavlib.EventFrame)
		if !ok {
			continue
		}
		c.mutex.Lock()
		switch m := f.Message().(type) {
		case *common.MessageHeartbeat:
			c.heartbeat = m
		case *common.MessageGlobalPositionInt:
			c.globalPosition = m
		case *common.MessageBatteryStatus:
			c.countedJ = 100 * float64(m.EnergyConsumed)
			c.integratedJ += float64(m.CurrentBattery) / 100 * float64(m.Voltages[0]) / 1000 * standInBatteryPeriodS
		}
		close(c.changed)
		c.changed = make(chan struct{})
		c.mutex.Unlock()
	}
}

func (c *standInLink) waitFor(ctx context.Context, ok func() bool) bool {
	for {
		c.mutex.Lock()
		changed, met := c.changed, ok()
		c.mutex.Unlock()
		if met {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// command is sent once: nothing is lost on this network.
func (c *standInLink) command(system int, id common.MAV_CMD, params ...float64) {
	m := &common.MessageCommandLong{TargetSystem: uint8(system), TargetComponent: 1, Command: id}
	for i, f := range []*float32{&m.Param1, &m.Param2, &m.Param3, &m.Param4, &m.Param5, &m.Param6, &m.Param7} {
		if i < len(params) {
			*f = float32(params[i])
		}
	}
	c.node.WriteMessageAll(m)
}

// streamSetpoints streams setpoints ten times a mission second: east at 8 m/s.
func (c *standInLink) streamSetpoints(ctx context.Context, system int, slotMS float64) {
	ticker := time.NewTicker(time.Duration(slotMS / 10 * float64(time.Millisecond)))
	defer ticker.Stop()
	var m message.Message = &common.MessageSetPositionTargetLocalNed{
		TargetSystem: uint8(system), TargetComponent: 1, CoordinateFrame: common.MAV_FRAME_LOCAL_NED,
		TypeMask: 0b110111000011, Z: -8, Vy: 8,
	}
	for {
		select {
		case <-ticker.C:
			c.node.WriteMessageAll(m)
		case <-ctx.Done():
			return
		}
	}
}
