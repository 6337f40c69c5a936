package leader_test

import (
	"strings"
	"testing"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
)

// With flight.failsafe set to alarm, an autopilot's unsafe or doubtful parameters
// are reported in the log and to the ground station, beside the mission's figures.
func TestGroundStationIsAlarmed(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.Config.Flight.Failsafe = "alarm"
		r.Config.Aircraft[0].PackJ = r.Physics.BatteryCapacityJ // whatever its autopilot says
		r.ReplaceParameters(0, map[string]float64{"COM_OBL_RC_ACT": 0, "BAT1_CAPACITY": 100, "COM_LOW_BAT_ACT": 0})
		r.StartLeader()
		r.Await("the leader", rig.AnyStatus)
		station := &gomavlib.Node{
			Endpoints: []gomavlib.EndpointConf{r.Endpoint("station", strings.Replace(r.Config.Aircraft[0].Endpoint, "udp-listen", "udp",
				1))},
			Dialect: common.Dialect, OutVersion: gomavlib.V2, OutSystemID: 255, HeartbeatSystemType: int(common.MAV_TYPE_GCS),
		}
		if err := station.Initialize(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(station.Close)
		received := make(chan string, 1000)
		go func() {
			for event := range station.Events() {
				text := ""
				if e, ok := event.(*gomavlib.EventFrame); ok {
					switch m := e.Message().(type) {
					case *common.MessageStatustext:
						text = m.Severity.String() + " " + m.Text
					case *common.MessageNamedValueFloat:
						text = m.Name
					case *common.MessageHeartbeat:
						text = "heartbeat of " + m.Type.String()
					}
				}
				if text == "" {
					continue // the queue is for what is waited for
				}
				select {
				case received <- text:
				default:
				}
			}
		}()
		waits := map[string]bool{
			"heartbeat of MAV_TYPE_ONBOARD_CONTROLLER": true, "budget_j": true, "spent_j": true, "setting": true,
			"MAV_SEVERITY_ERROR 1: unsafe failsafe: COM_OBL_RC_ACT is 0":           true,
			"MAV_SEVERITY_WARNING 1: doubtful parameter: BAT1_CAPACITY is 100 mAh": true,
			"MAV_SEVERITY_NOTICE mission climbing":                                 true, "MAV_SEVERITY_NOTICE mission flying": true,
			"MAV_SEVERITY_NOTICE 1: flying under command": true,
		}
		for text := <-received; !strings.HasPrefix(text, "heartbeat"); text = <-received { // it is on the link
		}
		r.TakeOff()
		if !r.Eventually(func() bool {
			for {
				select {
				case text := <-received:
					for w := range waits {
						if strings.HasPrefix(text, w) {
							delete(waits, w)
						}
					}
					continue
				default:
				}
				return len(waits) == 0
			}
		}) {
			t.Errorf("the ground station never received %v", waits)
		}
	})
}
