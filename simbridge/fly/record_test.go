package fly

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/checkpoint"
	"prefdt/simbridge/judge"
	"prefdt/simbridge/record"
	"prefdt/simbridge/simnet"
)

// A flight writes a record with an end, which is judged clean: a rule that is active in every flight was active in it.
func TestRecord(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := flightInMemory(t, 16)
		c.Leader.KillSlots = []int{12}
		c.Aircraft[1].Monitor = c.network.FreeAddress()
		Run(t.Context(), c, &bytes.Buffer{}) // with an error: slots are missed
		if s := readSummary(t, c); len(s.RulesBroken) > 0 {
			t.Errorf("rules broken: %q", s.RulesBroken)
		}
		path := filepath.Join(c.Out, RecordFile)
		found, err := judge.Judge(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found.Findings {
			if slices.Contains([]string{"fence", "gap", "rejoin", "shares", "energy", "record", "delay", "course", "station"}, x.Rule) &&
				!(x.Active > 0) {
				t.Errorf("rule %s was never active", x.Rule)
			}
		}
		var end *record.End
		tasks, downs := 0, 0
		readRecord(t, path, func(l record.Line) {
			end = l.End
			if l.Task != nil {
				tasks++
			}
			if l.Fault != nil && l.Fault.Kind == record.LeaderDown {
				downs++
			}
		})
		if end == nil || end.Ledger == nil || len(end.Ledger.Rows) == 0 || end.Failure != "" || end.Exit != "" || tasks == 0 || downs != 2 {
			t.Errorf("the record has %d tasks, %d moments of a killed leader, and ends with %+v", tasks, downs, end)
		}
	})
}

// The flight of a leader is that of its policy: one in which the same was ordered, and something else was done, is not.
func TestRecordBesideItsPolicy(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		frozen, err := checkpoint.Load("../../configs/checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		c := flightInMemory(t, 16)
		if err := Run(t.Context(), c, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		for rule, change := range map[string]func(l *record.Line){
			"": func(*record.Line) {},
			"reference delay": func(l *record.Line) {
				if l.Task != nil {
					l.Task.DelayS *= 1.6 // more than all tasks took
				}
			},
			"reference price": func(l *record.Line) {
				if l.MQTT != nil { // of each offer
					l.MQTT.Payload = strings.Replace(l.MQTT.Payload, `"price_s_per_j":0.`, `"price_s_per_j":1.`, 1)
				}
			},
			"reference energy": func(l *record.Line) {
				if l.State != nil {
					l.State.SpentJ *= 1.3
				}
			},
			"reference way": func(l *record.Line) {
				if l.State != nil { // it flies as far, to the other side
					l.State.PositionM[1] = 2*c.World.Start(l.Aircraft-1).NorthM - l.State.PositionM[1]
				}
			},
		} {
			var changed bytes.Buffer
			readRecord(t, filepath.Join(c.Out, RecordFile), func(l record.Line) {
				change(&l)
				if err := json.NewEncoder(&changed).Encode(l); err != nil {
					t.Error(err)
				}
			})
			found, err := judge.Read(&changed, frozen)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range found.Findings {
				wrong := x.Broken > 0 != (x.Rule == rule) && (rule == "" || x.Rule == rule)
				if strings.HasPrefix(x.Rule, "reference ") && (wrong || !(x.Active > 0)) {
					t.Errorf("%q changed: rule %s was active %v times and broken %d times: %s", rule, x.Rule, x.Active, x.Broken, x.First)
				}
			}
		}
	})
}

func readRecord(t *testing.T, path string, f func(record.Line)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := record.Read(file, func(l record.Line) error { f(l); return nil }); err != nil {
		t.Fatal(err)
	}
}

// What breaks a rule is in summary.json and in what is printed, and the flight fails.
func TestRulesBroken(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c, links := testConfig(t)
		c.Commands = []Command{{Slot: -1, Args: []string{"mission", "start"}}}
		// A stand-in flies far below H, by setpoints in another frame than the contract's.
		leader := &standInLeader{T: t, linkAddresses: links, slots: 12}
		leader.program, leader.url, leader.slotMS = c.network.Program("leader"), "tcp://"+c.Broker.Listen, 1000
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { leader.run(ctx); close(done) }()
		var out bytes.Buffer
		err := Run(t.Context(), c, &out)
		cancel()
		<-done
		s := readSummary(t, c)
		const rule = "commanded height, "
		broken := slices.ContainsFunc(s.RulesBroken, func(text string) bool { return strings.HasPrefix(text, rule) })
		if !broken || err == nil || !strings.Contains(err.Error(), rule) || !strings.Contains(out.String(), rule) {
			t.Errorf("rules broken: %q, error %v", s.RulesBroken, err)
		}
	})
}
