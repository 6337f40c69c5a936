package fleet

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// docs/hardware.md tells an integrator the parameters that the leader reads, as they are here.
func TestParameterTablesInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []autopilot{px4{}, ardupilot{}} {
		var want strings.Builder
		for _, p := range kind.traits().parameters {
			name := "`" + p.name + "`"
			if p.renamed != "" {
				name += " or `" + p.renamed + "`"
			}
			if p.required {
				name = "**" + name + "**"
			}
			fmt.Fprintf(&want, "| %s | %s | %s |\n", name, p.want, p.what)
		}
		if !strings.Contains(string(page), want.String()) {
			t.Errorf("the table of %s should be\n%s", kind.traits().name, want.String())
		}
	}
}

// docs/hardware.md tells what each does when it is left alone, as it is here.
func TestTableOfTheLeftAlone(t *testing.T) {
	page, err := os.ReadFile("../../docs/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for why := LeftByStream; why <= LeftByFence; why++ {
		fmt.Fprintf(&want, "| %s |", why)
		for _, kind := range []autopilot{px4{}, ardupilot{}} {
			var texts []string
			for _, f := range kind.traits().failsafes {
				if f.why == why {
					texts = append(texts, f.text())
				}
			}
			fmt.Fprintf(&want, " %s |", strings.Join(texts, "; "))
		}
		want.WriteString("\n")
	}
	if !strings.Contains(string(page), want.String()) {
		t.Errorf("the table should be\n%s", want.String())
	}
}

// configs/ardupilot/leader.parm makes an ArduCopter of either generation of names safe and agile
// for a leader with its default system id, up to the battery that nobody can know; with the
// simulation's it is complete.
func TestArduPilotParameterFile(t *testing.T) {
	const leaderID = 250
	if text, err := os.ReadFile("../../configs/leader.yaml"); err != nil ||
		!strings.Contains(string(text), fmt.Sprintf("\n  system_id: %d ", leaderID)) {
		t.Fatalf("%v, or the leader's system id is not %d", err, leaderID)
	}
	table := ardupilotTable
	values := map[string]float64{}
	for _, file := range []string{"leader.parm", "sitl.parm"} {
		text, err := os.ReadFile("../../configs/ardupilot/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) == 0 || fields[0] == "#" {
				continue
			}
			x, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if _, again := values[fields[0]]; err != nil || len(fields) != 2 || again {
				t.Fatalf("%s: %q", file, line)
			}
			// From then on it obeys the leader's id alone: a ground station sets nothing more.
			if values["SYSID_ENFORCE"]+values["MAV_OPTIONS"] > 0 && file == "leader.parm" && fields[0] != "MAV_OPTIONS" {
				t.Errorf("%s comes after SYSID_ENFORCE, and cannot be set", fields[0])
			}
			values[fields[0]] = x
		}
	}
	for _, later := range []bool{false, true} {
		p := Parameters{autopilot: ardupilot{}, leader: leaderFacts{systemID: leaderID, heightM: 120}}
		set := func(name string, x float64) {
			p.handleParamValue(&common.MessageParamValue{ParamId: name, ParamValue: float32(x), ParamType: common.MAV_PARAM_TYPE_REAL32})
		}
		used := map[string]bool{"BATT_MONITOR": true} // not the leader's business
		for _, row := range table {
			name := row.name
			if later && row.renamed != "" {
				name = row.renamed
			}
			x, listed := values[name]
			used[row.name], used[row.renamed] = true, true
			switch {
			case listed && name != "BATT_LOW_VOLT":
				set(name, x)
			case row.required: // as ArduCopter has it by default
				set(name, map[string]float64{"WPNAV_SPEED": 1000, "WP_SPD": 10}[name])
			}
		}
		if why := p.UnsafeReason(); !p.Complete() || !strings.Contains(why, "BATT_LOW_VOLT") && !strings.Contains(why, "battery") {
			t.Errorf("without the battery's voltage: %q", why)
		}
		set("BATT_LOW_VOLT", values["BATT_LOW_VOLT"])
		if why, doubts := p.UnsafeReason(), p.Warnings(150e3); why != "" || len(doubts) > 0 {
			t.Errorf("names of 4.7: %v: unsafe %q, doubts %q", later, why, doubts)
		}
		for name := range values {
			if !used[name] {
				t.Errorf("%s is not a parameter that the leader reads", name)
			}
		}
	}
}
