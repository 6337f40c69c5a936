package judge

import "prefdt/simbridge/record"

// assumptions are all that may widen or suspend a rule. A rule names the one that it needs; each use is counted.
var assumptions = []assumption{
	{name: "link cut", why: "nothing is sent to the aircraft or received from it", faults: []string{"link_loss", "autopilot_reboot"},
		laterS: 6},
	{name: "leader away", why: "nobody commands: the leader was killed, or stands still", faults: []string{record.LeaderDown}, laterS: 10},
	{name: "broker away", why: "neither crew nor users can be reached", faults: []string{record.BrokerDown}, laterS: 5},
	{name: "late datagrams", why: "what the aircraft sends is up to 0.7 s late, and out of order", faults: []string{"out_of_order"},
		laterS: 1},
	{name: "lost heartbeats", why: "HEARTBEATs of the aircraft are lost", faults: []string{"heartbeat_gap", "heartbeat_loss",
		"heartbeat_silence"}, laterS: 2},
	{name: "station silent", why: "no HEARTBEAT of the leader's reaches an ArduCopter", faults: []string{"station_silence"}, laterS: 2},
	{name: "low pack", why: "the aircraft is to come home: its pack lost most of its charge", faults: []string{"low_battery"}, laterS: 1e9},
	{name: "contact lost", why: "it holds, or comes home, without an order",
		faults: []string{"broker_hold", "broker_return", "crew_radio_hold", "crew_radio_return"}, laterS: 15},
	{name: "comes home by itself", why: "contact, or the disk, was lost for so long that the flight is over",
		faults: []string{"broker_return", "crew_radio_return", "disk_refuses"}, laterS: 1e9},
	{name: "arming refused", why: "the autopilot does not arm", faults: []string{record.StaysDown}, laterS: 2},
	{name: "mode refused", why: "the autopilot does not follow setpoints any more, nor, maybe, return by itself",
		faults: []string{record.RefusesMode}, laterS: 30}, // its pack may be low by then
	{name: "wrong land detector", why: "it says that the aircraft is on the ground", faults: []string{"tells_landed"}, laterS: 3},
	{name: "late climb", why: "a take-off that came too late, or failed, is called off", laterS: 40,
		faults: []string{"link_loss", "autopilot_reboot", record.StaysDown, "pilot_disarm", "heartbeat_gap", "out_of_order",
			"station_silence"}},
	{name: "storm", why: "thousands of messages are to be handled first", faults: []string{"command_storm"}, laterS: 6},
	{name: "disk stands", why: "nothing can be made durable", faults: []string{"disk_stall", "disk_refuses"}, laterS: 6,
		everyAircrafts: true},
	{name: "stream over", why: "nothing was decided for twelve slots, and setpoints have ended", faults: []string{"disk_stall"},
		soonerS: -11,
		laterS:  6},
	{name: "battery misread", why: "what is measured of the battery is missing, wrong, or of another pack", laterS: 18, faults: []string{
		"battery_absent", "battery_handover", "battery_reset", "battery_wild", "battery_second", "low_battery", "autopilot_reboot"}},
	{name: "wrong sample", why: "one that is refused leaves the position before it, which is a second older", laterS: 1.5,
		faults: []string{record.WrongSample}},
	{name: "height jumped", why: "until a jump is believed, setpoints and statuses are of the height that was reported", laterS: 2,
		faults: []string{record.HeightJump}},
	{name: "worker ill", why: "a worker is silent, slow, hangs, lies or is started again", soonerS: 1, laterS: 4, faults: []string{
		"worker_silent", "worker_slow", "worker_hangs", "worker_lies", "worker_late", record.ExecutorLies, record.WorkerStarts}},
	{name: "forged results", why: "what users are believed to take of an offer is learned from results that none sent", faults: []string{
		"forged_result"}, laterS: 3},
	{name: "strangers", why: "users of whom the world does not know report, and have results", laterS: 3,
		faults: []string{"foreign_reports"}},
}
