package judge

import "prefdt/simbridge/record"

// assumptions are all that may widen or suspend a rule. A rule names the one that it needs; each use is counted.
var assumptions = []assumption{
	{name: "link cut", why: "nothing is sent to the aircraft or received from it", faults: []string{"link_loss", "autopilot_reboot"}, laterS: 6},
	{name: "leader away", why: "nobody commands: the leader was killed, or stands still", faults: []string{record.LeaderDown}, laterS: 10},
	{name: "broker away", why: "neither crew nor users can be reached", faults: []string{record.BrokerDown}, laterS: 5},
	{name: "late datagrams", why: "what the aircraft sends is up to 0.7 s late, and out of order", faults: []string{"out_of_order"}, laterS: 1},
	{name: "lost heartbeats", why: "HEARTBEATs of the aircraft are lost", faults: []string{"heartbeat_gap", "heartbeat_loss", "heartbeat_silence"}, laterS: 2},
	{name: "station silent", why: "no HEARTBEAT of the leader's reaches an ArduCopter", faults: []string{"station_silence"}, laterS: 2},
	{name: "disk stands", why: "nothing can be made durable", faults: []string{"disk_stall", "disk_refuses"}, laterS: 6},
}
