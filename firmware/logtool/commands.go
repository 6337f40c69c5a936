package logtool

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// commandLine is one command of the crew, as people ask for it afterwards: who wanted
// what, when, and what came of it.
type commandLine struct {
	Mission  string `json:"mission"`
	Slot     int    `json:"slot"` // in force from; -1: refused
	ID       string `json:"id"`
	Key      string `json:"key"` // that signed it; empty: unsigned
	Accepted bool   `json:"accepted"`
	What     string `json:"what"`
	Reason   string `json:"reason"` // of a refusal
}

// listCommands writes the last commands that a ledger keeps, of all missions or one.
func listCommands(_ context.Context, o *options, stdout io.Writer) error {
	all, err := read(o.path, (*ledger.Ledger).Commands)
	if err != nil {
		return err
	}
	lines := []commandLine{}
	for _, c := range all {
		ack, err := telemetry.DecodeAck(c.Ack)
		if err != nil {
			return fmt.Errorf("command %s: %w", c.ID, err)
		}
		if o.mission != "" && c.Mission != o.mission {
			continue
		}
		line := commandLine{c.Mission, -1, c.ID, ack.Key, ack.Accepted, c.What, ack.Reason}
		if ack.Accepted {
			line.Slot = *ack.EffectiveSlot
		}
		lines = append(lines, line)
	}
	if o.json {
		return json.NewEncoder(stdout).Encode(lines)
	}
	out := csv.NewWriter(stdout)
	out.Write([]string{"mission", "slot", "id", "key", "accepted", "what", "reason"})
	for _, c := range lines {
		out.Write([]string{c.Mission, strconv.Itoa(c.Slot), c.ID, c.Key, strconv.FormatBool(c.Accepted), c.What, c.Reason})
	}
	out.Flush() // reports the first error of them all
	return out.Error()
}
