package fly

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prefdt/inference/physics"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// LoadWorld puts a world, by its name or the keys of its file, over the flight's own. The
// leader that the flight starts then flies as many slots as that world has, and expects its hidden state.
func (c *Config) LoadWorld(nameOrFile string) error {
	own := c.World
	c.World.Aircraft = len(c.Aircraft)
	if err := c.World.Load(nameOrFile); err != nil {
		return err
	}
	if c.World.Aircraft != len(c.Aircraft) {
		return fmt.Errorf("configuration %s has %d aircraft, and the flight has links for %d: want an entry under aircraft for each",
			nameOrFile, c.World.Aircraft, len(c.Aircraft))
	}
	c.Leader.slots, c.Leader.surroundings = c.World.Slots, surroundingsOf(&c.World)
	return c.scaleBudgets(&own)
}

// scaleBudgets multiplies the budgets of the commands by the ratio of the least energies: those of a flight's file
// are for its own world, and for as many aircraft as that has under world.
func (c *Config) scaleBudgets(own *world.Config) error {
	factor, fleets := c.World.FloorFromJ(0)/own.FloorFromJ(0), ""
	if c.World.Aircraft != own.Aircraft {
		fleets = fmt.Sprintf(" (world.aircraft of the file: %d, here %d)", own.Aircraft, c.World.Aircraft)
	}
	for i := range c.Commands {
		args := slices.Clone(c.Commands[i].Args)
		at := slices.Index(args, "-energy") + 1
		if args[0] != string(telemetry.KindBudget) || at == 0 || at == len(args) || math.Abs(factor-1) < 1e-3 {
			continue
		}
		energyJ, err := command.ParseEnergy(args[at])
		if err != nil {
			return fmt.Errorf("command at slot %d: %w", c.Commands[i].Slot, err)
		}
		requested := args[at]
		args[at] = strings.ReplaceAll(command.Kilojoules(factor*energyJ), " ", "")
		c.Commands[i].Args = args
		c.scaled = append(c.scaled, fmt.Sprintf("budget of %s at slot %d is %s here: times %.3g, the ratio of the least energies of "+
			"the two worlds%s; budgets in a file with this world under world: are not scaled", requested,
			max(c.Commands[i].Slot, 0), args[at], factor, fleets))
	}
	return nil
}

// maxManifestBytes bounds the manifest that is read for its constants.
const maxManifestBytes = 1 << 20

// warnOfCheckpoint says where the leader that this flight starts has a
// checkpoint that was trained with other constants than this world's. What is
// wrong with its files is for the leader to say.
func (f *flight) warnOfCheckpoint() {
	values, _ := f.Leader.configuration()
	folder, ok := values["checkpoint"].(string)
	if len(f.Leader.Command) == 0 || !ok {
		return
	}
	trained, err := readTrainedWorld(folder)
	if err != nil {
		return
	}
	if list := trained.ConstantDifferences(f.toldWorld(&trained)); len(list) > 0 {
		text := strings.Join(list, "; ")
		f.log.Warn("the leader's checkpoint was trained in another world", "checkpoint", folder, "differences", text)
		f.view.printLine("warning: the leader's checkpoint was trained in another world: " + text)
	}
}

// withinTrained is the world without what the policy was trained for beside its own constants: it reads whatever
// users report, so fewer of them, and deadlines within the range that training drew, are no other world.
func withinTrained(c world.Config, trained *world.Config) world.Config {
	if c.Users <= trained.Users && c.ActiveMax <= trained.ActiveMax {
		c.Users, c.ActiveMin, c.ActiveMax = trained.Users, trained.ActiveMin, trained.ActiveMax
	}
	if c.DeadlineMinS >= trained.DeadlineMinS && c.DeadlineMaxS <= trained.DeadlineMaxS {
		c.DeadlineMinS, c.DeadlineMaxS = trained.DeadlineMinS, trained.DeadlineMaxS
	}
	return c
}

// toldWorld is the world without what the leader was told of it, or what its users
// report.
func (f *flight) toldWorld(trained *world.Config) world.Config {
	c := withinTrained(f.World, trained)
	if f.Leader.surroundings == nil {
		return c
	}
	here, there := &c.Physics.Channel, &trained.Physics.Channel
	here.UrbanA, here.UrbanB, c.Physics.Contention = there.UrbanA, there.UrbanB, trained.Physics.Contention
	here.LoS.ExcessDB, here.LoS.ShadowDB = there.LoS.ExcessDB, there.LoS.ShadowDB
	here.NLoS.ExcessDB, here.NLoS.ShadowDB = there.NLoS.ExcessDB, there.NLoS.ShadowDB
	c.SkylineDeg, c.ShadowingDeg, c.Sounding = trained.SkylineDeg, trained.ShadowingDeg, trained.Sounding
	c.Throttling, c.Walking = trained.Throttling, trained.Walking
	c.UserCPUHz, c.UserCPUMinHz, c.UserCPUMaxHz = trained.UserCPUHz, trained.UserCPUMinHz, trained.UserCPUMaxHz
	return c
}

// readTrainedWorld reads out of a checkpoint's manifest what world it is for.
func readTrainedWorld(folder string) (world.Config, error) {
	m, err := readManifest(folder)
	if err != nil {
		return world.Config{}, err
	}
	c, err := world.FromRecord(m.World)
	c.Physics = m.Physics
	return c, err
}

// manifest is what a flight reads of a checkpoint's.
type manifest struct {
	Physics   physics.Constants `json:"physics"`
	World     json.RawMessage   `json:"world"`
	Published json.RawMessage   `json:"published"`
}

func readManifest(folder string) (m manifest, err error) {
	file, err := os.Open(filepath.Join(folder, "manifest.json"))
	if err != nil {
		return m, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxManifestBytes))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(bytes.TrimPrefix(raw, []byte("\ufeff")), &m) // a byte order mark, of an editor
}
