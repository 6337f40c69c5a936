package study

import (
	"fmt"
	"slices"
	"strings"

	"prefdt/inference"
	"prefdt/inference/model"
	"prefdt/inference/token"
	"prefdt/offline/corpus"
	"prefdt/offline/papertrain"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

// Kinds of arms.
const (
	kindFlagship = "flagship" // the shipped checkpoint
	kindTrained  = "trained"  // our network, trained by the study
	kindPaper    = "paper"    // PrefDT as published, trained by the study
	kindRules    = "rules"    // an archive of searched rules
	kindDispatch = "dispatch" // the dispatch teacher at its prices
	kindRandom   = "random"
	kindPacer    = "pacer" // a scheduler without a network, which paces a budget
)

// Arm is one row of the study.
type Arm struct {
	Name        string `json:"name"`
	Description string `json:"-"`
	Kind        string `json:"kind"`
	// TrainingRun is the training run that made it, for the trained kinds.
	TrainingRun string            `json:"run,omitempty"`
	Decoder     inference.Decoder `json:"decoder,omitempty"`
	// SearchPopulation of a searched archive.
	SearchPopulation int `json:"members,omitempty"`
	// Prices of the dispatch teacher, if not the configuration's.
	Prices int `json:"prices,omitempty"`
	// Scheduler is the name of a pacer in package evaluate.
	Scheduler string `json:"scheduler,omitempty"`
	// CentroidMotion flies towards centroids in place of these.
	CentroidMotion bool `json:"centroid,omitempty"`
	// PreferenceWithBudget keeps the delay entry and omega together with a budget, as
	// the paper does, for networks that were never trained without them.
	PreferenceWithBudget bool `json:"beside,omitempty"`
	// Unconditioned arms take no request: they make one point.
	Unconditioned bool `json:"blind,omitempty"`
	// BudgetsOnly arms have no front of their own and are flown for budgets alone.
	BudgetsOnly bool `json:"budgets_only,omitempty"`
	// AllSeeds arms fly on all seeds.
	AllSeeds bool `json:"headline,omitempty"`
	// LossyLink arms are also flown over a lossy link.
	LossyLink bool `json:"link,omitempty"`
}

// trainingRun is one training run of the study.
type trainingRun struct {
	name   string
	recipe string // of the corpus, see recipes
	// seesHistory gives the network its previous action, and a context of twenty
	// slots in place of the base's one.
	seesHistory   bool
	adjustArch    func(*model.Arch)
	adjustWeights func(*train.LossWeights)
	// hiddenFeatures lists the features that are held constant, by kind of row.
	hiddenFeatures token.Layout
	// adjustEpisode changes a flight before it is learned from.
	adjustEpisode func(*corpus.Example)
}

// recipes are the corpora that runs are trained on.
var recipes = map[string]func() corpus.Recipe{
	"shipped": shippedWithAction,
	"steady":  func() corpus.Recipe { r := shippedWithAction(); r.PriceChange, r.Shock = 0, 0; return r },
	"whole":   func() corpus.Recipe { r := shippedWithAction(); r.BudgetOnly = 0; return r },
}

// shippedWithAction is the shipped recipe with the previous action visible; each run
// hides it unless its network sees its history.
func shippedWithAction() corpus.Recipe {
	r := corpus.ShippedRecipe()
	r.HidePreviousAction = false
	return r
}

var (
	allowanceFeatures = []string{"allowance", "log allowance", "allowance to go", "allowance of the edge scale"}
	toGoFeatures      = []string{"delay to go", "energy to go", "delay per slot"}
	requestFeatures   = []string{"omega delay", "place", "dropped"}
)

// trainingRuns returns the training runs; each differs from the base in one thing.
func (c *Config) trainingRuns() []trainingRun {
	list := []trainingRun{
		{name: "base", recipe: "shipped"},
		{name: "remembering", recipe: "shipped", seesHistory: true},
		{name: "no-allowance", recipe: "shipped", hiddenFeatures: token.Layout{Return: allowanceFeatures}},
		{name: "no-price", recipe: "shipped", adjustWeights: func(w *train.LossWeights) { w.Price = 0 }},
		{name: "dmax-move", recipe: "shipped", adjustEpisode: func(e *corpus.Example) {
			for i := range e.Labels.Move {
				e.Labels.Move[i] /= e.Labels.MoveScale
			}
			e.Labels.MoveScale = 1
		}},
		{name: "steady-flights", recipe: "steady"},
		{name: "no-mask", recipe: "shipped", adjustEpisode: func(e *corpus.Example) {
			for i := range e.Labels.SlotWeight {
				e.Labels.SlotWeight[i] = 1
			}
		}},
		{name: "no-dropout", recipe: "whole"},
		{name: "paper-features", recipe: "shipped", hiddenFeatures: token.Layout{
			Pair:     []string{"best gain", "rate behind the best", "T_off at a third", "local misses", "least offload", "edge energy"},
			Aircraft: []string{"users with the best gain here"},
		}},
		{name: "no-track", recipe: "shipped", hiddenFeatures: token.Layout{Aircraft: []string{"track east", "track north", "target distance"}}},
		{name: "unconditioned", recipe: "whole", seesHistory: true, hiddenFeatures: token.Layout{
			Return: slices.Concat(allowanceFeatures, toGoFeatures, requestFeatures), State: requestFeatures, Action: requestFeatures,
		}},
		{name: "omega-bc", recipe: "whole", seesHistory: true, hiddenFeatures: token.Layout{Return: slices.Concat(allowanceFeatures, toGoFeatures)}},
	}
	for _, a := range c.sizes() {
		if a != c.Train.Arch {
			list = append(list, trainingRun{name: sizeName(a), recipe: "shipped", adjustArch: func(x *model.Arch) { *x = a }})
		}
	}
	return list
}

// publishedDispatch is the training run of the published form on the dispatch teacher's flights.
const publishedDispatch = "published-dispatch"

// published returns the configuration of PrefDT as published in a training run, and its tokens:
// those that the study's other arms have.
func (c *Config) published(run string) (p papertrain.Config, tokens float64) {
	p = papertrain.Default()
	p.Form.Arch = c.Train.Arch
	p.Form.Context, p.Form.PairWidth = historySlots, c.Train.Arch.Width
	p.Schedule.WarmUpSteps = c.Train.Schedule.WarmUpSteps
	p.Flights, p.Episodes, p.Dispatch = max(c.CorpusFlights, 1000), c.ArchiveEpisodes, run == publishedDispatch
	return p, float64(c.Train.Batch * c.Train.Schedule.Steps * model.TokensPerSlot * world.Standard().Slots)
}

// sizes returns the architectures of the size-quality curve: one measure at a
// time changed from the base, the smallest and the largest.
func (c *Config) sizes() []model.Arch {
	base := c.Train.Arch
	sized := func(width, layers, context int) model.Arch {
		a := base
		a.Width, a.PairWidth, a.Layers, a.Context = width, width/2, layers, context
		return a
	}
	var list []model.Arch
	for _, width := range []int{64, 128, 256} {
		for layers := 1; layers <= 3; layers++ {
			for _, context := range []int{1, 5, 20} {
				changed := 0
				for _, same := range []bool{width == base.Width, layers == base.Layers, context == base.Context} {
					if !same {
						changed++
					}
				}
				smallest, largest := width == 64 && layers == 1 && context == 1, width == 256 && layers == 3 && context == 20
				if c.AllSizes || changed <= 1 || smallest || largest {
					list = append(list, sized(width, layers, context))
				}
			}
		}
	}
	return list
}

func sizeName(a model.Arch) string {
	return fmt.Sprintf("width%d-layers%d-context%d", a.Width, a.Layers, a.Context)
}

// sizeArmName returns the arm of a size; the base's is called that.
func (c *Config) sizeArmName(a model.Arch) string {
	if a == c.Train.Arch {
		return "base"
	}
	return sizeName(a)
}

// contextArmName returns the arm of the base under another context.
func (c *Config) contextArmName(slots int) string {
	a := c.Train.Arch
	a.Context = slots
	return c.sizeArmName(a)
}

// Arms that the others are judged by.
const (
	// evenArm is the reference even pacer, which defines the seeds on which a budget can
	// be kept.
	evenArm = "even"
	// finestTeacherArm has the front that ratios are taken to, at more prices than any
	// arm has settings: between few prices a front has gaps, which its rivals fill.
	finestTeacherArm = "dispatch-teacher-256"
	finestPrices     = 256
)

// arms returns every arm, in the order they are measured: baselines first.
func (c *Config) arms() []Arm {
	list := []Arm{
		{Name: "dispatch-teacher", Description: "exact dispatch at a sweep of prices, motion towards least expected delay", Kind: kindDispatch, AllSeeds: true},
		{Name: finestTeacherArm, Description: "the same at 256 prices, to whose front all ratios are taken", Kind: kindDispatch, Prices: finestPrices, AllSeeds: true},
		{Name: evenArm, Description: "the reference even pacer: what is left above the flight floor, over the slots to go", Kind: kindPacer, Scheduler: "even", BudgetsOnly: true},
		{Name: "capped-even", Description: "the even pacer, never above its share", Kind: kindPacer, Scheduler: "capped even", BudgetsOnly: true},
		{Name: "constant-price", Description: "the one price at which the archived front spends the budget", Kind: kindPacer, Scheduler: "constant price", BudgetsOnly: true},
		{Name: "controller", Description: "the price at which it forecasts that what is left is spent", Kind: kindPacer, Scheduler: "controller", BudgetsOnly: true},
		{Name: "controller-reserve", Description: "the same, with the flagship's reserve for a change of flight power", Kind: kindPacer, Scheduler: "controller with reserve", BudgetsOnly: true},
		{Name: "greedy", Description: "price zero until nothing is left above the flight floor", Kind: kindPacer, Scheduler: "greedy", BudgetsOnly: true},
		{Name: "flagship-price", Description: "the shipped checkpoint, at its own price under a budget too, without any limit", Kind: kindFlagship, Decoder: inference.DecoderPrice, BudgetsOnly: true},
		{Name: "flagship", Description: "the shipped checkpoint, price into exact dispatch", Kind: kindFlagship, Decoder: inference.DecoderDispatch, AllSeeds: true, LossyLink: true},
		{Name: "flagship-snapped", Description: "the shipped checkpoint, association by the heads, offload in closed form", Kind: kindFlagship, Decoder: inference.DecoderSnapped, AllSeeds: true},
		{Name: "flagship-heads", Description: "the shipped checkpoint, the paper's heads", Kind: kindFlagship, Decoder: inference.DecoderHeads, AllSeeds: true},
		{Name: "rules-50", Description: "the paper's teacher: NSGA-II over its ten-gene rule, population 50", Kind: kindRules, SearchPopulation: 50, AllSeeds: true},
		{Name: "rules-101", Description: "the same, population 101", Kind: kindRules, SearchPopulation: 101, AllSeeds: true},
		{Name: "random", Description: "every decision at random", Kind: kindRandom, AllSeeds: true},
		{Name: "dispatch-centroid", Description: "the dispatch teacher, motion towards the users' centroids", Kind: kindDispatch, CentroidMotion: true, AllSeeds: true},
		{Name: "paper-form", Description: "PrefDT as published, with the study's tokens", Kind: kindPaper, TrainingRun: "published", Decoder: inference.DecoderHeads, LossyLink: true, AllSeeds: true},
		{Name: "paper-form-dispatch", Description: "the same on flights of the dispatch teacher", Kind: kindPaper, TrainingRun: publishedDispatch, Decoder: inference.DecoderHeads},
		{Name: "base", Description: "the flagship's recipe, with the study's number of training steps", Kind: kindTrained, TrainingRun: "base", Decoder: inference.DecoderDispatch, AllSeeds: true},
		{Name: "remembering", Description: "a context of 20 slots and the previous action, as the paper's", Kind: kindTrained, TrainingRun: "remembering", Decoder: inference.DecoderDispatch},
		{Name: "base-snapped", Description: "exact decoding reverted: the heads' association, closed-form offload", Kind: kindTrained, TrainingRun: "base", Decoder: inference.DecoderSnapped},
		{Name: "base-heads", Description: "exact decoding reverted: the paper's heads", Kind: kindTrained, TrainingRun: "base", Decoder: inference.DecoderHeads},
		{Name: "no-price-snapped", Description: "no price head, snapped decoder", Kind: kindTrained, TrainingRun: "no-price", Decoder: inference.DecoderSnapped},
		{Name: "no-price-heads", Description: "no price head, the paper's heads", Kind: kindTrained, TrainingRun: "no-price", Decoder: inference.DecoderHeads},
		{Name: "no-allowance", Description: "without the allowance features", Kind: kindTrained, TrainingRun: "no-allowance", Decoder: inference.DecoderDispatch},
		{Name: "steady-flights", Description: "no price-change and no multiplier flights in the corpus", Kind: kindTrained, TrainingRun: "steady-flights", Decoder: inference.DecoderDispatch},
		{Name: "no-mask", Description: "loss on all slots, also before a flight's last change", Kind: kindTrained, TrainingRun: "no-mask", Decoder: inference.DecoderDispatch},
		{Name: "no-dropout", Description: "no budget-only flights; a budget comes with delay entry and omega, as the paper's", Kind: kindTrained, TrainingRun: "no-dropout", Decoder: inference.DecoderDispatch, PreferenceWithBudget: true},
		{Name: "dmax-move", Description: "the loss of the displacement in units of D_max", Kind: kindTrained, TrainingRun: "dmax-move", Decoder: inference.DecoderDispatch},
		{Name: "no-track", Description: "no motion target among the aircraft's features", Kind: kindTrained, TrainingRun: "no-track", Decoder: inference.DecoderDispatch},
		{Name: "paper-features", Description: "user features of the paper alone, exact decoding", Kind: kindTrained, TrainingRun: "paper-features", Decoder: inference.DecoderDispatch},
		{Name: "paper-features-heads", Description: "user features of the paper alone, the paper's heads", Kind: kindTrained, TrainingRun: "paper-features", Decoder: inference.DecoderHeads},
		{Name: "unconditioned", Description: "unconditioned DT: conditioning rows zero, one point", Kind: kindTrained, TrainingRun: "unconditioned", Decoder: inference.DecoderHeads, Unconditioned: true, AllSeeds: true},
		{Name: "omega-bc", Description: "omega-BC: the preference alone, no returns", Kind: kindTrained, TrainingRun: "omega-bc", Decoder: inference.DecoderHeads, PreferenceWithBudget: true, AllSeeds: true},
	}
	for _, a := range c.sizes() {
		if name := c.sizeArmName(a); name != "base" {
			list = append(list, Arm{Name: name, Description: fmt.Sprintf("the base at width %d, %d layers, context of %d", a.Width, a.Layers, a.Context), Kind: kindTrained, TrainingRun: name, Decoder: inference.DecoderDispatch})
		}
	}
	for _, name := range c.headsArmNames() {
		if run := strings.TrimSuffix(name, headsSuffix); run != "base" {
			list = append(list, Arm{Name: name, Description: "the same network, the paper's heads", Kind: kindTrained, TrainingRun: run, Decoder: inference.DecoderHeads})
		}
	}
	return list
}

const (
	headsSuffix  = "-heads"
	smallestSize = "width64-layers1-context1"
)

// headsArmNames returns the arms that decode by the heads, one for each width and
// depth.
func (c *Config) headsArmNames() (list []string) {
	for _, a := range c.sizes() {
		if a.Context == c.Train.Arch.Context {
			list = append(list, c.sizeArmName(a)+headsSuffix)
		}
	}
	return list
}
