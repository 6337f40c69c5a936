package fleet

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
	"github.com/bluenviron/gomavlib/v3/pkg/streamwriter"

	"prefdt/inference/physics"
)

// checkViews checks what the slot loop relies on.
func (b *fixture) checkViews(t *testing.T) {
	t.Helper()
	for _, v := range b.Views() {
		for name, x := range map[string]float64{"east": v.Position.EastM, "north": v.Position.NorthM, "up": float64(v.UpM),
			"speed": v.SpeedMPS,
			"total": v.TotalJ, "model": v.ModelJ, "error": v.UncertaintyJ, "boot": v.BootMS, "rate": v.ClockMSPerS} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("aircraft %d: %s is %v", v.Number, name, x)
			}
		}
		if v.TotalJ < -1e-6 || v.ModelJ < 0 || v.Charge < 0 || v.Charge > 1 || v.UncertaintyJ < 0 || v.SpeedMPS > 1000 {
			t.Fatalf("aircraft %d: %+v", v.Number, v)
		}
	}
	if len(b.rejectedFrames) > 300 {
		t.Fatalf("%d reasons for refusal", len(b.rejectedFrames))
	}
}

// op is one event, for seeds.
func op(kind byte, arguments ...byte) []byte {
	return append([]byte{kind, byte(len(arguments))}, arguments...)
}

// messageOp is a message in the form of the wire.
func messageOp(b *fixture, from byte, m message.Message) []byte {
	raw := b.rw.GetMessage(m.GetID()).Write(m, true)
	for i, known := range leaderDialect.Messages {
		if known.GetID() == m.GetID() {
			return op(byte(i), append([]byte{from}, raw.Payload...)...)
		}
	}
	panic("not of the dialect")
}

// FuzzMessages has autopilots send anything, in any order, while the leader changes
// their orders and time passes.
func FuzzMessages(f *testing.F) {
	b := newFixture(f)
	flight := func(from byte, lat, lon int32) []byte {
		return bytes.Join([][]byte{
			messageOp(b, from, heartbeatMessage(ModeHold, false)),
			messageOp(b, from, &common.MessageGlobalPositionInt{TimeBootMs: 5000, Lat: lat, Lon: lon, Alt: 500e3, Vx: 100}),
			messageOp(b, from, &common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_ON_GROUND}),
			messageOp(b, from, &common.MessageParamValue{ParamId: "MPC_XY_VEL_MAX", ParamType: common.MAV_PARAM_TYPE_REAL32,
				ParamValue: 12}),
			messageOp(b, from, &common.MessageBatteryStatus{Voltages: [10]uint16{16000}, CurrentBattery: 1000, EnergyConsumed: 3,
				BatteryRemaining: 90}),
			op(0x80, from, 1), op(0x82, 20),
			messageOp(b, from, heartbeatMessage(ModeOffboard, true)),
			messageOp(b, from, &common.MessageExtendedSysState{LandedState: common.MAV_LANDED_STATE_IN_AIR}),
			messageOp(b, from, &common.MessageGlobalPositionInt{TimeBootMs: 9000, Lat: lat + 50, Lon: lon, Alt: 500e3, Vx: -32768}),
			op(0x83, from, 40, 200), op(0x82, 10),
			messageOp(b, from, &common.MessageSysStatus{VoltageBattery: 15000, CurrentBattery: -1, BatteryRemaining: -1}),
			op(0x82, 200),
		}, nil)
	}
	f.Add(flight(0, 470010000, 80010000))
	f.Add(append(flight(0, 470010000, 80010000), flight(1, 470010100, 80010000)...))
	f.Add(append(flight(0, -899999999, 1799999999), flight(1, math.MaxInt32, math.MinInt32)...))
	f.Add(bytes.Join([][]byte{flight(0, 470010000, 80010000), op(0x81, 0), op(0x84, 0), op(0x85, 0, 9), op(0x86, 1), op(0x87, 0),
		op(0x82, 255)}, nil))
	f.Add(bytes.Join([][]byte{messageOp(b, 0, heartbeatMessage(0, true)),
		messageOp(b, 0, &common.MessageGlobalPositionInt{TimeBootMs: math.MaxUint32, Lat: 1, Alt: math.MinInt32}), op(0x82, 5),
		messageOp(b, 0, &common.MessageParamValue{ParamId: "MPC_XY_P", ParamType: common.MAV_PARAM_TYPE_REAL32, ParamValue: 1e38}),
		op(0x80, 0, 2), op(0x82, 50)}, nil))
	f.Fuzz(func(t *testing.T, ops []byte) {
		b := newFixture(t)
		began := time.Now()
		for n := 0; len(ops) >= 2 && n < 200; n++ {
			kind, size := ops[0], min(int(ops[1]), len(ops)-2)
			arguments := ops[2 : 2+size]
			ops = ops[2+size:]
			if size == 0 {
				continue
			}
			b.apply(t, kind, arguments)
			b.checkViews(t)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Fatalf("took %v", took)
		}
	})
}

func (b *fixture) apply(t *testing.T, kind byte, arguments []byte) {
	who := int(arguments[0]) % 3
	number := who + 1
	x := func(i int) float64 {
		if i < len(arguments) {
			return float64(int8(arguments[i]))
		}
		return 0
	}
	switch {
	case kind < 0x80: // a message of one of the aircraft
		m := leaderDialect.Messages[int(kind)%len(leaderDialect.Messages)]
		payload := arguments[1:]
		decoded, err := b.rw.GetMessage(m.GetID()).Read(&message.MessageRaw{ID: m.GetID(), Payload: payload}, true)
		if err != nil {
			return
		}
		system, component, at := byte(number), byte(autopilotComponent), who/2
		switch arguments[0] >> 4 {
		case 13:
			at = 1 - at // from the other link
		case 14:
			component = arguments[0]
		case 15:
			system, component = 250, companionComponent
		}
		fr := &frame.V2Frame{SystemID: system, ComponentID: component, Message: decoded}
		b.mutex.Lock()
		b.links[at].route(&gomavlib.EventFrame{Frame: fr, Channel: channels[at]})
		b.mutex.Unlock()
	case kind == 0x80:
		switch uint8(x(1)) % 3 {
		case 0:
			b.Launch(ordered(number))
		case 1:
			b.SendHome(number)
		case 2:
			b.Stop(number)
		}
	case kind == 0x81:
		b.Resume(resume(number, uint8(x(1))%2 == 1))
	case kind == 0x82:
		b.advance(time.Duration(arguments[0]) * 100 * time.Millisecond)
	case kind == 0x83:
		b.Leg(number, physics.Position{EastM: x(1), NorthM: x(2)})
	case kind == 0x84:
		b.Hold(number)
	case kind == 0x85:
		b.Goto(number, physics.Position{EastM: 10 * x(1), NorthM: 10 * x(2)})
	case kind == 0x86:
		b.HandToPilot(number, "test")
	case kind == 0x87: // the channel closes
		for _, a := range b.aircraft {
			if a.number == number {
				a.channel = nil
			}
		}
	case kind == 0x88:
		b.UpdateMeter(number, math.Abs(x(1)), 1+math.Abs(x(2))/64)
	case kind == 0x89:
		b.Rejoin(number)
	case kind == 0x8a:
		b.Clear(ordered(number))
	}
}

// FuzzFrames puts any bytes on a link, decoded by gomavlib with the leader's dialect,
// with a signing key and without.
func FuzzFrames(f *testing.F) {
	b := newFixture(f)
	key := frame.NewV2Key(bytes.Repeat([]byte{7}, 32))
	for _, signed := range []*frame.V2Key{nil, key} {
		var wire bytes.Buffer
		frames := &frame.Writer{ByteWriter: &wire, DialectRW: b.rw}
		if err := frames.Initialize(); err != nil {
			f.Fatal(err)
		}
		w := &streamwriter.Writer{FrameWriter: frames, Version: streamwriter.V2, SystemID: 1, ComponentID: 1, Key: signed}
		if err := w.Initialize(); err != nil {
			f.Fatal(err)
		}
		for _, m := range []message.Message{heartbeatMessage(ModeHold, true),
			&common.MessageGlobalPositionInt{Lat: 470010000, Lon: 80010000, Alt: 500e3},
			&common.MessageBatteryStatus{Voltages: [10]uint16{16000}, CurrentBattery: 1000},
			&common.MessageParamValue{ParamId: "MPC_XY_P", ParamValue: 1}} {
			if err := w.Write(m); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(wire.Bytes())
	}
	f.Add([]byte{0xfe, 9, 0, 1, 1, 0})
	f.Add(append([]byte{0xfd, 255, 1, 0, 0, 1, 1}, binary.LittleEndian.AppendUint32(nil, 22)...))
	f.Fuzz(func(t *testing.T, wire []byte) {
		for _, k := range []*frame.V2Key{nil, key} {
			b := newFixture(t)
			r := &frame.Reader{ByteReader: bytes.NewReader(wire), DialectRW: b.rw, InKey: k}
			if err := r.Initialize(); err != nil {
				t.Fatal(err)
			}
			for {
				fr, err := r.Read()
				if err == io.EOF {
					break
				}
				if err != nil {
					b.mutex.Lock()
					b.rejectFrame("malformed frame")
					b.mutex.Unlock()
					continue
				}
				b.mutex.Lock()
				b.links[0].route(&gomavlib.EventFrame{Frame: fr, Channel: channels[0]})
				b.mutex.Unlock()
			}
			b.advance(time.Second)
			b.checkViews(t)
		}
	})
}
