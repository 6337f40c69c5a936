package evaluate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"prefdt/configs/cli"
	"prefdt/inference"
	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/offline/belieftrain"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

const usage = `offline evaluate measures a checkpoint on evaluation seeds, against the
exact-dispatch teacher on the same episodes.

  offline evaluate -checkpoint configs/checkpoint                  the front
  offline evaluate -checkpoint configs/checkpoint -budget          and budgets, calm and perturbed
  offline evaluate -checkpoint configs/checkpoint -uplink          and lost or late reports
  offline evaluate -checkpoint configs/checkpoint -fleet 1,2,4,8   and other fleets
  offline evaluate -checkpoint configs/checkpoint -world field     schedulers that remember, and that know
                                                                   what is hidden, in a field world
  offline evaluate -checkpoint configs/checkpoint -packs           totals and packs below what all aircraft
                                                                   need to fly: who is in the air, until when
  offline evaluate -checkpoint configs/checkpoint -config world.yaml
                                                                   the front in another world than its own

Flags:
`

// Command is "offline evaluate".
func Command(ctx context.Context, call *cli.Call) error {
	f, stderr := call.Flags, call.Stderr
	dir := f.String("checkpoint", checkpoint.DefaultFolder, "`FOLDER` of the checkpoint")
	text := f.String("seeds", "1000000:1000020", "evaluation seeds, `A:B`, B excluded")
	settings := f.Int("settings", 21, "settings K of a front")
	prices := f.Int("prices", 32, "prices of the teacher's front")
	decoder := f.String("decoder", string(inference.DecoderDispatch), "dispatch, closed-form or heads")
	budgets := f.Bool("budget", false, "also measure budgets")
	armNames := f.String("arms", "",
		"measure budgets by these `NAMES` alone, beside the policy and the even pacer, as in greedy,controller")
	ceilings := f.Bool("ceilings", false, "also measure budgets, of them ceilings alone, and no regret: quicker, for many seeds")
	perturbation := f.String("perturbation", "",
		"measure budgets under the perturbations alone whose name contains this `TEXT`, as in edge energy")
	uplink := f.Bool("uplink", false, "also measure lost and late reports")
	fleet := f.String("fleet", "", "also measure fleets of these `SIZES`, as in 1,2,4,8")
	shift := f.Bool("shift", false, "also measure fifteen shifted operating points")
	missions := f.Bool("missions", false, "also measure other lengths, crowds, lost aircraft, crowded starts and small batteries")
	unseen := f.Bool("outside", false, "also measure the worlds that training never draws: "+strings.Join(world.OutsideNames(), ", "))
	worlds := f.Int("random-worlds", 0, "also measure `N` random worlds")
	fieldWorlds := slices.Concat(world.FieldNames(), world.UnseenNames())
	field := f.String("world", "", "measure the field world of this `NAME` instead: "+strings.Join(fieldWorlds, ", "))
	estimator := f.String("estimator", "",
		"of -world, measure the trained estimator in this `FOLDER`, of a run or a checkpoint, instead of the checkpoint's own")
	contexts := f.String("contexts", "",
		"of -world, also measure the policy with the estimators in these `FOLDERS`, trained with other -window, as in out/k1,out/k5")
	packs := f.Bool("packs", false, "measure instead who is in the air until when; seeds may be of calibration, too")
	cellNames := f.String("cells", "", "of -packs, measure these `CELLS` alone, as in 20kJ,24kJ; of -budget, these joules of the "+
		"world itself in place of the standard world's budgets scaled, as in 109kJ,117kJ")
	plot := f.String("plot", "", "PNG `file` to draw the fronts of policy and teacher into")
	config := command.WorldFlag(f)
	asJSON := call.JSONFlag()
	workers := f.Int("workers", runtime.GOMAXPROCS(0), "episodes simulated at a time; changes no result")
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	*budgets = *budgets || *ceilings
	allowed := seeds.CheckEvaluation
	if *packs {
		allowed = checkPackSeeds
	}
	list, err := command.ParseSeeds(*text, allowed)
	if err != nil {
		return cli.BadInput(err)
	}
	switch {
	case *settings < 2 || *prices < 3 || *workers < 1 || *worlds < 0:
		return cli.BadInputf("-settings must be 2 at least, -prices 3, -workers 1, -random-worlds 0")
	case !slices.Contains(inference.Decoders(), inference.DecoderOf(*decoder)):
		return cli.BadInputf("-decoder is %q, want one of %q", *decoder, inference.Decoders())
	case *cellNames != "" && !*packs && (!*budgets || *field != ""):
		return cli.BadInputf("-cells %s are of -packs, or of -budget without -world: give one of them as well", *cellNames)
	case *field != "" && call.Given("config"):
		return cli.BadInputf("-config and -world are each a world: give one of them, -config for a file of your own")
	case *field != "" && !slices.Contains(fieldWorlds, *field):
		return cli.BadInputf("-world is %q, want one of %s; -config has a file of your own", *field, strings.Join(fieldWorlds, ", "))
	case *field == "" && *estimator != "":
		return cli.BadInputf("-estimator %s is of a field world: give -world as well", *estimator)
	case *field == "" && *contexts != "":
		return cli.BadInputf("-contexts %s is of a field world: give -world as well", *contexts)
	case *field != "" && *plot != "":
		return cli.BadInputf("-plot is of one policy and its teacher, -world compares arms: give one of them")
	}
	var sizes []int
	for _, part := range command.Words(*fleet) {
		m, err := strconv.Atoi(part)
		if err != nil || m < 1 || m > 64 {
			return cli.BadInputf("-fleet has %q, want sizes from 1 to 64", part)
		}
		sizes = append(sizes, m)
	}
	if err := checkPerturbation(*perturbation, *cellNames != "" && !*packs); err != nil {
		return cli.BadInputf("-perturbation: %w", err)
	}
	names := command.Words(*armNames)
	var arms []string
	var cells []packCell
	var budgetsJ []float64
	if *packs {
		cells, names, err = selectPacks(command.Words(*cellNames), names)
	} else if arms, err = selectArms(names); err == nil {
		budgetsJ, err = parseBudgets(*cellNames)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	var parameters *learned.Parameters
	if *estimator != "" {
		if parameters, _, err = belieftrain.Read(*estimator); err != nil {
			return cli.BadInput(err)
		}
	}
	files := command.Words(*contexts)
	var remembering []*learned.Parameters // in the order of the files
	for _, file := range files {
		p, _, err := belieftrain.Read(file)
		if err != nil {
			return cli.BadInput(err)
		}
		remembering = append(remembering, p)
	}
	ck, err := checkpoint.Load(*dir)
	if err != nil {
		return cli.BadInput(err)
	}
	if ck.Published != nil {
		if !call.Given("decoder") {
			*decoder = string(inference.DecoderHeads)
		}
		if *decoder != string(inference.DecoderHeads) || *field != "" || len(sizes) > 0 || *missions || *worlds > 0 {
			return cli.BadInputf("%s is of the published form: it has the decoder %q alone, and flies one fleet, missions of one "+
				"length and no field world", *dir, inference.DecoderHeads)
		}
	}
	trained, err := rollout.WorldOf(&ck.Manifest)
	if err != nil {
		return err
	}
	here, err := config(trained)
	if err != nil {
		return cli.BadInput(err)
	}
	if here.Trace != nil && (*shift || *missions || *unseen) {
		return cli.BadInputf("-shift, -missions and -outside change the tasks that are drawn, and the world has a trace instead")
	}
	if *field != "" {
		if here, err = world.Named(*field); err != nil {
			return cli.BadInput(err)
		}
	}
	if parameters == nil {
		parameters = ck.Beliefs
	}
	if len(files) > 0 && parameters == nil {
		return cli.BadInputf("-contexts %s is of a policy with an estimator, and the checkpoint has none: give -estimator", *contexts)
	}
	others := map[int]*learned.Parameters{}
	for i, p := range remembering {
		file := files[i]
		if p.Window == parameters.Window || others[p.Window] != nil {
			return cli.BadInputf("-contexts: %s remembers %d slots, as another one does", file, p.Window)
		}
		others[p.Window] = p
	}
	command.WarnOfWorld(stderr, trained, here)
	if call.Given("config") {
		fmt.Fprintln(stderr, command.PropulsionLine(&here.Physics))
	}
	if *packs {
		fmt.Fprint(stderr, packNotes(&here))
	}
	if *budgets && !*packs && *field == "" {
		fmt.Fprint(stderr, budgetNotes(&here, len(list), len(budgetsJ) > 0))
	}
	c := Config{World: here, Seeds: list, Settings: *settings, TeacherPrices: *prices, Decoder: inference.DecoderOf(*decoder),
		Workers: *workers, Progress: stderr, CeilingsOnly: *ceilings, Perturbation: *perturbation, BudgetsJ: budgetsJ,
		Estimator: parameters, Contexts: slices.Collect(maps.Values(others)), Plot: *plot}
	record, since := experiment.NewRecord(&here, *workers), experiment.Now()
	record.Seeds["all"] = experiment.SeedRange(list)
	for _, folder := range append([]string{*dir, *estimator}, files...) {
		if folder != "" {
			if err := record.AddFiles(folder, folder); err != nil {
				return cli.BadInput(err)
			}
		}
	}
	printed := func(r any, text string, into **experiment.Record) error {
		record.End(since)
		*into = record
		return command.PrintReport(call, *asJSON, text, r)
	}
	if *packs {
		r, err := measurePacks(ctx, ck, c, cells, names)
		if err != nil && len(r.Packs) == 0 {
			return err
		}
		return errors.Join(printed(r, packsText, &r.Record), err)
	}
	if *field != "" {
		r, err := measureField(ctx, ck, c)
		if err == nil && *budgets {
			r.Budgets, err = measureFieldBudgets(ctx, ck, c)
		}
		if err != nil {
			return err
		}
		r.World = *field
		return printed(r, fieldText, &r.Record)
	}
	r, err := measureFront(ctx, ck, c)
	if ctx.Err() != nil {
		return errors.New("interrupted before the first table was complete")
	}
	if err != nil {
		return err
	}
	for _, m := range []struct {
		wanted  bool
		measure func() error
	}{
		{*budgets, func() (err error) {
			r.CeilingMargin = &ck.GoalConstants.CeilingMargin
			r.Budgets, r.BudgetArms, err = measureBudgets(ctx, ck, c, arms)
			return err
		}},
		{*uplink, func() (err error) { r.Uplink, err = measureUplink(ctx, ck, c); return err }},
		{len(sizes) > 0, func() (err error) { r.Fleets, err = measureFleets(ctx, ck, c, sizes); return err }},
		{*shift, func() error { return r.addPoints(measureEach(ctx, ck, c, experiment.Shifts)) }},
		{*unseen, func() error { return r.addPoints(measureEach(ctx, ck, c, experiment.OutsideWorlds())) }},
		{*missions, func() error { return r.addPoints(measureEach(ctx, ck, c, experiment.MissionShifts)) }},
		{*worlds > 0, func() error {
			points, over, err := measureRandomWorlds(ctx, ck, c, *worlds)
			r.RandomWorlds = over
			return r.addPoints(points, err)
		}},
	} {
		if m.wanted && err == nil {
			err = m.measure()
		}
	}
	switch {
	case ctx.Err() != nil:
		err = errors.New("interrupted; the tables printed are complete, the others are left out")
	case err != nil:
		return err
	}
	return errors.Join(printed(&r, frontText, &r.Record), err)
}

// addPoints adds the rows of one table, unless it is incomplete.
func (r *Report) addPoints(points []OperatingPoint, err error) error {
	r.OperatingPoints = append(r.OperatingPoints, points...)
	return err
}

//go:embed front.tmpl
var frontText string
