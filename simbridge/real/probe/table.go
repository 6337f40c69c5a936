package probe

// Table are all probes, in an order in which little is flown twice. What is allowed is what the real ones differ by from run to
// run (their sensors are noisy), and what the resolution of the question is: HEARTBEATs come ten times in a second, setpoints too.
//
// A power cycle in the air is not in it: the real ones are then back at home, since their physics end with them.
var Table = []Probe{
	{Name: "boot", from: freshBoot, run: boot, Does: "power on; its mode, and what arming is answered until its checks pass",
		Figures: []Figure{
			{Name: "mode"}, {Name: "arming at once"}, {Name: "its text"},
			{Name: "checks pass", Unit: "s", Abs: 2},
			{Name: "arming when commanded", On: []Kind{ArduPilot}},
			{Name: "checks pass when commanded", Unit: "s", Abs: 2, On: []Kind{ArduPilot}},
			{Name: "arming then"}, {Name: "disarms itself", Unit: "s", Abs: 1},
		}},
	{Name: "modes on the ground", from: onGround, run: groundModes, Does: "command each mode, arm in it, disarm",
		Figures: groundFigures()},
	{Name: "parameters", from: onGround, run: parameters, Does: "the parameter protocol, and values that the dynamics are by",
		Figures: parameterFigures()},
	{Name: "streams", from: onGround, run: askStreams, Does: "each stream at several rates, off, and at its default",
		Figures: streamFigures()},
	{Name: "take-off", from: onGround, run: takeOffProbe, Does: "arm, take off to 40 m",
		Figures: []Figure{
			{Name: "arming"}, {Name: "answer"}, {Name: "mode in the climb"}, {Name: "landed state in the climb"},
			{Name: "leaves the ground", Unit: "s", Abs: 1}, {Name: "climb", Unit: "m/s", Abs: 0.1, Rel: 0.1},
			{Name: "at 39 m", Unit: "s", Abs: 2, Rel: 0.1}, {Name: "mode at the end"}, {Name: "height at the end", Unit: "m", Abs: 0.7},
			{Name: "text of arming"}, {Name: "text of take-off"},
		}},
	{Name: "modes in the air", from: inAir, run: airModes, Does: "command modes in the air, and disarm",
		Figures: []Figure{
			{Name: "position"}, {Name: "unknown"}, {Name: "disarm"}, {Name: "reboot"}, {Name: "take-off", On: []Kind{ArduPilot}},
			{Name: "hold"}, {Name: "hold is reported", Unit: "s", Abs: 0.3},
			{Name: "commanded without setpoints"}, {Name: "commanded with setpoints"},
			{Name: "commanded is reported", Unit: "s", Abs: 0.3},
		}},
	{Name: "cruise", from: inAir, run: cruise, Does: "8 m/s by setpoints from rest, as the leader sends them",
		Figures: []Figure{
			{Name: "at 7.2 m/s", Unit: "s", Abs: 0.7}, {Name: "fastest", Unit: "m/s", Abs: 0.8},
			{Name: "ahead of its way", Unit: "m", Abs: 1.5}, {Name: "height lost", Unit: "m", Abs: 1},
		}},
	{Name: "reversal", from: inAir, run: reversal, Does: "8 m/s, then 8 m/s back",
		Figures: []Figure{
			// The simulated PX4 is a second sooner: gains that follow a turn as the real one does settle at a place too slowly.
			{Name: "too far", Unit: "m", Abs: 2}, {Name: "at 7.2 m/s back", Unit: "s", Abs: 1},
			{Name: "height changes", Unit: "m", Abs: 1},
		}},
	{Name: "step", from: inAir, run: step, Does: "a target 20 m away, without a velocity",
		Figures: []Figure{
			{Name: "at 18 m", Unit: "s", Abs: 0.7}, {Name: "fastest", Unit: "m/s", Abs: 1}, {Name: "too far", Unit: "m", Abs: 1.3},
		}},
	{Name: "stop", from: inAir, run: stop, Does: "hold commanded at 8 m/s",
		Figures: []Figure{
			{Name: "answer"}, {Name: "further", Unit: "m", Abs: 2.5, Rel: 0.1}, {Name: "below 0.5 m/s", Unit: "s", Abs: 0.7},
			{Name: "back", Unit: "m", Abs: 2.5}, {Name: "height lost", Unit: "m", Abs: 1},
		}},
	{Name: "lost stream", from: inAir, run: lostStream, Does: "setpoints end at 8 m/s for 15 s, and come again",
		Figures: []Figure{
			{Name: "mode"}, {Name: "mode after", Unit: "s", Abs: 0.4, On: []Kind{PX4}}, {Name: "failsafe"},
			// The simulated PX4 flies on straight until it holds, as was measured once too: 34 m.
			{Name: "further", Unit: "m", Abs: 10, On: []Kind{PX4}}, {Name: "further", Unit: "m", Abs: 3, Rel: 0.1, On: []Kind{ArduPilot}},
			{Name: "below 0.5 m/s", Unit: "s", Abs: 0.8}, {Name: "back", Unit: "m", Abs: 2.5}, {Name: "mode with setpoints"},
			{Name: "it comes by itself", Unit: "s", Abs: 0.4, On: []Kind{PX4}},
		}},
	{Name: "lost station", from: inAir, run: lostStation, Does: "HEARTBEATs end for 12 s, setpoints go on; then commanded again",
		Figures: []Figure{
			{Name: "mode"}, {Name: "mode after", Unit: "s", Abs: 1.2, On: []Kind{ArduPilot}}, {Name: "failsafe"},
			{Name: "mode with HEARTBEATs"}, {Name: "failsafe with HEARTBEATs"}, {Name: "commanded"}, {Name: "mode then"},
		}},
	{Name: "return", from: inAir, run: comeHome, Does: "return commanded 60 m from home, 12 m up",
		Figures: []Figure{
			{Name: "answer"}, {Name: "highest", Unit: "m", Abs: 1}, {Name: "fastest", Unit: "m/s", Abs: 1},
			{Name: "last descent", Unit: "m/s", Abs: 0.1, Rel: 0.1}, {Name: "landed after", Unit: "s", Abs: 3, Rel: 0.09},
			{Name: "landed after touching", Unit: "s", Abs: 1, On: []Kind{ArduPilot}}, {Name: "disarmed after that", Unit: "s", Abs: 1},
			{Name: "from home", Unit: "m", Abs: 1}, {Name: "mode at the end"},
		}},
	{Name: "landing", from: inAir, run: landing, Does: "land commanded at 40 m",
		Figures: []Figure{
			{Name: "answer"}, {Name: "landed state"}, {Name: "descent", Unit: "m/s", Abs: 0.1, Rel: 0.05},
			{Name: "last descent", Unit: "m/s", Abs: 0.1, Rel: 0.1}, {Name: "landed after", Unit: "s", Abs: 3, Rel: 0.07},
			{Name: "landed after touching", Unit: "s", Abs: 1, On: []Kind{ArduPilot}}, {Name: "disarmed after that", Unit: "s", Abs: 1},
			{Name: "mode at the end"}, {Name: "text of landing"},
		}},
	{Name: "low battery", from: inAir, run: lowBattery,
		Does: "a battery that is low in hover; commanded again, landed, armed",
		Figures: []Figure{
			{Name: "mode before", On: []Kind{PX4}}, {Name: "first mode"}, {Name: "first mode after", Unit: "s", Abs: 1.5},
			{Name: "failsafe"}, {Name: "second mode", On: []Kind{PX4}}, {Name: "second mode after", Unit: "s", Abs: 1.5, On: []Kind{PX4}},
			{Name: "commanded"}, {Name: "mode then"}, {Name: "mode 10 s later"},
			{Name: "arming after it"}, {Name: "text of that"},
		}},
	{Name: "reboot", from: stands, run: reboot, Does: "a command to reboot, and a power cycle, on the ground after a flight",
		Figures: []Figure{
			{Name: "answer"}, {Name: "mode"}, {Name: "armed"}, {Name: "energy before", On: []Kind{ArduPilot}},
			{Name: "energy", Unit: "hJ", Abs: 2}, {Name: "remaining", Unit: "%", Abs: 2}, {Name: "height", Unit: "m", Abs: 0.7},
		}},
}
