package chaos

// knownFinding is a rule that the leader is known to break in a situation, until an issue
// is done. It is printed and fails no run; the list is to shrink.
type knownFinding struct {
	rule      string
	situation string // a fault, as kind or kind@state, or a word of [plan.situation]; empty: any
	issue     string // that ends it
}

var knownFindings = []knownFinding{
	{"least separation", "crowd", "lag and delay of each aircraft in the envelope: where setpoints come 0.3 s late, 15 ms at this " +
		"speed, two that meet pass at 9.4 m"},
	{"delay", "process_stall", "a leader that stood still after a beacon that reached nobody books the tasks of that slot as if it had"},
	{"record", "process_stall", "likewise, and its row is not missed"},
	{"told position", "wrong_samples", "one position that is wrong is believed if it is the first that is received: the true " +
		"ones after it are refused for 9 s, in which nothing takes off"},
	{"taken place", "field+tight_homes", "homes 12 m apart: gusts and a receiver have one land up to 3 m beside its own"},
	{"least separation", "field+tight_homes", "likewise, over one on the ground"},
	{"fence", "field+outside", "likewise, of the commanded fence"},
	{"commanded fence", "outside", "eight that come home outside the area wait up to 35 m beyond their homes, and four that climb " +
		"there side by side are sent as far out for a tick"},
	{"wind", "field+wind", "what flying costs beside the formula is taken for wind"},
	{"lands at reserve", "pack_total+shock", "under a total that is below the floor a change of flight power is measured later than " +
		"after 10 s, and one that leaves for its reserve meanwhile lands 2 % of its pack below what it could keep"},
	{"measured cost", "pilot_return+outside", "two ArduCopters of which one flies home by itself: dearer flight is averaged with what " +
		"was measured before it, and known 17 slots late"},
	{"uses pack", "out_of_order", "one whose battery was read late and out of order in the climb left in slot 0, with 37 % at touchdown"},
	{"uses pack", "slow_monitor", "what a monitor that reads every few seconds says of a climb"},
	{"uses pack", "wind", inWind},
	{"stays up", "wind", inWind},
}

const inWind = "a way home is taken to cost the most that it may in calm air, at what flying was measured to cost in wind, and in any " +
	"wind that is likely: up to 46 % of a pack is left, of at most 23"

// knownIssue is the issue that ends a finding in this mission; empty: it is not known.
func (p *plan) knownIssue(rule string) string {
	for _, f := range knownFindings {
		if f.rule == rule && (f.situation == "" || p.is(f.situation)) {
			return f.issue
		}
	}
	return ""
}
