package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/record"
	"prefdt/simbridge/world"
)

// recordFile, in a mission's folder, is what truly happened in it.
const recordFile = "record.jsonl"

// beginRecord begins the mission's record.
func (m *mission) beginRecord() (err error) {
	p := &m.plan
	f := record.Flight{Plan: p.String(), Fleet: fleetName, Slots: p.Slots, Speed: p.Speed, Physics: m.world.Physics, AMSLM: origin.AltM,
		World: &m.world, Seed: p.Seed, Slope: p.Slope, SharedLink: p.OneLink}
	if p.Listed {
		f.Users = m.userIDs()
	}
	f.Absence = &record.Absence{BrokerHoldS: brokerHoldS, BrokerReturnS: brokerReturnS}
	if p.losesCrewRadio() {
		f.Absence.CrewHoldS, f.Absence.CrewReturnS = crewHoldS, p.crewReturnS()
	}
	for i := range m.Aircraft {
		a := record.Aircraft{Autopilot: "px4", StandM: record.Vector(m.standM(i)),
			StartM: [2]float64{m.starts[i].EastM, m.starts[i].NorthM}, CapacityJ: m.capacityJ(i), Parameters: p.parameters(i),
			DriftM: math.Abs(p.DriftM), SensorGain: p.SensorGain[i], MonitorS: p.MonitorS, SpeedMaxMPS: m.world.Physics.SpeedMaxMPS}
		if p.isCopter(i) {
			a.Autopilot = "ardupilot"
		}
		if s := p.Site; s != nil {
			a.ReceiverM, a.ReceiverUpM, a.ReceiverMPS = s.Receiver.PositionM, s.Receiver.HeightM, s.Receiver.VelocityMPS
			a.GustMPS2, a.LinkS = s.GustMPS2, (s.Radio.Latency + s.Radio.Jitter).Seconds()
			if m.network != nil {
				a.LossShare = s.Loss
			}
			a.PowerLeast, a.PowerMost = s.PowerLevel[i]-math.Abs(s.PowerBend[i]), s.PowerLevel[i]+math.Abs(s.PowerBend[i])
		}
		if p.SpeedMaxMPS > 0 {
			a.SpeedMaxMPS = p.SpeedMaxMPS
		}
		f.Aircraft = append(f.Aircraft, a)
	}
	m.record, err = record.Create(filepath.Join(m.folder, recordFile), f)
	return err
}

// noteFault records that something that is simulated begins or ends, of an aircraft from 1 or, with 0, of all.
func (m *mission) noteFault(kind string, aircraft int, ends bool, text string) {
	m.record.Write(record.Line{Aircraft: aircraft, Fault: &record.Fault{Kind: kind, Ends: ends, Text: text}})
}

// recordMessage records a message of the broker's. What it sends is recorded for the leader alone.
func (m *mission) recordMessage(from, to, topic string, payload []byte) {
	if to != "" && !new(record.Flight).IsLeader(to) {
		return
	}
	m.record.Write(record.Line{MQTT: &record.Message{From: from, To: to, Topic: topic, Payload: string(payload)}})
}

// decidedPath is where a leader records its decisions, by the name of its configuration.
func (m *mission) decidedPath(name string) string {
	return filepath.Join(m.folder, name+"-decided.jsonl")
}

// recordDecided records what the leader did of its decisions since it was last started.
func (m *mission) recordDecided() {
	path := m.decidedPath("leader")
	raw, _ := os.ReadFile(path) // there is none before the first
	for line := range bytes.Lines(raw) {
		m.record.Write(record.Line{Decided: bytes.TrimSpace(line)})
	}
	os.Remove(path)
}

// endRecord ends it, after the leader's end. exit is how the leader ended by itself before.
func (m *mission) endRecord(failure error, exit string) {
	m.users.ComputeUnopened(int(m.dueSlots))
	for _, o := range m.users.Outcomes() {
		m.record.Write(record.Line{Task: &record.Task{Slot: o.Slot, User: fmt.Sprintf("u%02d", o.User+1), By: o.By, Aircraft: o.Aircraft,
			DelayS: o.DelayS, Missed: o.DeadlineMissed}})
	}
	e := record.End{Exit: exit}
	if failure != nil {
		e.Failure = failure.Error()
	}
	if l := m.leader.Load().leaderProgram; l != nil {
		l.Shutdown() // how it ended is the record's
		m.recordDecided()
	}
	l, err := ledger.OpenReadOnly(ledger.Path(filepath.Join(m.folder, "leader")))
	if err == nil {
		var flights []ledger.Flight
		if flights, err = l.Flights(); len(flights) > 0 {
			e.Ledger = &flights[0] // another mission may have begun
		} else if err == nil {
			err = errors.New("it has no mission")
		}
		l.Close()
	}
	if err != nil {
		e.Error = err.Error()
	}
	if m.plan.Wind {
		truth := world.NewScenario(&m.world, m.plan.Seed)
		for n := range m.plan.Slots {
			w := truth.WindMPS(n)
			e.WindMPS = append(e.WindMPS, [2]float64{w.EastM, w.NorthM})
		}
	}
	if err := m.record.Close(e); err != nil {
		m.failure = err.Error()
	}
}
