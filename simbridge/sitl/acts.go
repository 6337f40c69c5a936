package sitl

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/router"
)

// What a flight has a pilot or the radio do: the same methods as a simulated aircraft's.

// CutLinks has nothing pass between the leader and the instance for a while, if there is a relay. What is attached here stays.
func (v *Vehicle) CutLinks(seconds float64) {
	if v.relay == nil {
		return
	}
	v.relay.Cut(true)
	time.AfterFunc(time.Duration(seconds/v.Speed*float64(time.Second)), func() { v.relay.Cut(false) })
}

// A pilot's station, and the channels of his radio: 1500 is a stick in the middle, the others are switches.
const (
	stationSystem = 255
	modeChannel   = 4 // the fifth
	radioChannels = 16
	radioMiddleUS = 1500
)

// radioModes are the positions of the mode switch, by ArduCopter SITL's defaults: middles of its six ranges.
var radioModes = map[autopilot.Mode]uint16{
	autopilot.ModeLand: 1295, autopilot.ModeReturn: 1425, autopilot.ModePosition: 1685, autopilot.ModeStabilize: 1815,
}

// SetModeByRC has the pilot choose a mode: of a PX4 at his ground station, of an ArduCopter by the switch of his radio,
// since that obeys no station but the leader (MAV_OPTIONS). The radio is on from then on.
func (v *Vehicle) SetModeByRC(m autopilot.Mode) {
	v.mutex.Lock()
	channel, copter := v.channel, v.copter()
	if copter {
		v.switchUS = radioModes[m]
	}
	v.mutex.Unlock()
	if copter || channel == nil {
		return
	}
	v.sendFrom(stationSystem, byte(common.MAV_COMP_ID_MISSIONPLANNER), channel, &common.MessageCommandLong{
		TargetSystem: v.SystemID, TargetComponent: 1, Command: common.MAV_CMD_DO_SET_MODE,
		Param1: float32(common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED), Param2: float32(m >> 16 & 0xff), Param3: float32(m >> 24),
	})
}

// sendRadio sends the channels of a radio that is on.
func (v *Vehicle) sendRadio() {
	v.mutex.Lock()
	switchUS := v.switchUS
	v.mutex.Unlock()
	if switchUS == 0 || v.Radio == "" {
		return
	}
	if v.radio == nil {
		c, err := net.Dial("udp4", v.Radio)
		if err != nil {
			return // the mode stays as it is, and the flight says so
		}
		v.radio = c
	}
	var packet []byte
	for i := range radioChannels {
		us := uint16(radioMiddleUS)
		if i == modeChannel {
			us = switchUS
		}
		packet = binary.LittleEndian.AppendUint16(packet, us)
	}
	v.radio.Write(packet)
}

// openRelay begins to pass what the instance and the leader send to each other.
func (v *Vehicle) openRelay() (err error) {
	if v.Relay != [2]string{} {
		v.relay, err = router.New(v.endpoint.Open, v.Relay[1], v.Relay[0])
	}
	return err
}

// closeActs ends what the above began.
func (v *Vehicle) closeActs() {
	if v.relay != nil {
		v.relay.Close()
	}
	if v.radio != nil {
		v.radio.Close()
	}
}

// Signatures count 10 us from 2015 on.
const signatureUnit = 10 * time.Microsecond

var signatureEpoch = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

// sign has a frame signed with the endpoint's key, if it has one, when it is fixed.
func (e *Endpoint) sign(f *frame.V2Frame) {
	if e.Key == nil {
		return
	}
	e.signedAt.Store(max(signatureTime(time.Now()), e.signedAt.Load()+1)) // a receiver takes none twice
	f.IncompatibilityFlag |= frame.V2FlagSigned
	f.SignatureTimestamp = e.signedAt.Load()
}

// keyed is whether there is a key that the instance is to sign with.
func (v *Vehicle) keyed() bool { return v.endpoint != nil && v.endpoint.Key != nil }

func signatureTime(now time.Time) uint64 { return uint64(now.Sub(signatureEpoch) / signatureUnit) }

func (v *Vehicle) noteSignature(f frame.Frame) {
	v2, ok := f.(*frame.V2Frame)
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.signed = ok && v2.IsSigned()
}

// shareKey gives the key to an instance that does not sign yet, as a ground station does over a cable. The mutex is held.
func (v *Vehicle) shareKey(now time.Time) *common.MessageSetupSigning {
	if !v.keyed() || v.signed || now.Sub(v.keySharedAt) < time.Second {
		return nil
	}
	v.keySharedAt = now
	return &common.MessageSetupSigning{TargetSystem: v.SystemID, TargetComponent: 1, SecretKey: *v.endpoint.Key,
		InitialTimestamp: signatureTime(now)}
}
