package study

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"prefdt/configs"
	"prefdt/inference"
	"prefdt/inference/model"
	"prefdt/inference/token"
	"prefdt/offline/corpus"
	"prefdt/offline/prefdttrain"
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

// row is an arm: how its policy is made, and what that is flown through.
type row struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description" json:"-"`
	Kind        string `yaml:"kind"`
	TrainingRun string `yaml:"run"` // that made it, for the trained kinds
	Decoder     inference.Decoder
	Population  int    // of a searched archive
	Prices      int    // of the dispatch teacher, if not the configuration's
	Scheduler   string // the name of a pacer in package baseline
	// CentroidMotion flies towards centroids in place of least expected delays.
	CentroidMotion bool `yaml:"centroid_motion"`
	// PreferenceWithBudget keeps the delay entry and omega together with a budget, as
	// the paper does, for networks that were never trained without them.
	PreferenceWithBudget bool `yaml:"preference_with_budget"`
	Unconditioned        bool // it takes no request: it makes one point
	BudgetsOnly          bool `yaml:"budgets_only"` // it has no front of its own and is flown for budgets alone
	AllSeeds             bool `yaml:"all_seeds"`
	LossyLink            bool `yaml:"lossy_link"` // it is also flown over a lossy link
}

func (a *row) isArchive() bool { return a.Kind == kindRules || a.Kind == kindDispatch }

// trainingRun trains one of the study's networks.
type trainingRun struct {
	Name   string
	Recipe string // of the corpus, see recipes
	// SeesHistory gives the network its previous action, and a context of twenty
	// slots in place of the base's one.
	SeesHistory bool         `yaml:"sees_history"`
	Hidden      token.Layout // features that are held constant, by kind of row
	NoPrice     bool         `yaml:"no_price"`     // the loss leaves out the price
	MoveInDMax  bool         `yaml:"move_in_dmax"` // the loss of the displacement is in units of D_max
	AllSlots    bool         `yaml:"all_slots"`    // the loss is of all slots, also before a flight's last change
	arch        model.Arch   // of another size than the base; zero: the base's
}

// adjust changes a flight before it is learned from.
func (r *trainingRun) adjust(labels *corpus.Labels) {
	if r.MoveInDMax {
		for i := range labels.Move {
			labels.Move[i] /= labels.MoveScale
		}
		labels.MoveScale = 1
	}
	if r.AllSlots {
		for i := range labels.SlotWeight {
			labels.SlotWeight[i] = 1
		}
	}
}

// recipes are the corpora that runs are trained on.
var recipes = map[string]func() corpus.Recipe{
	"shipped": shippedWithAction,
	"steady":  func() corpus.Recipe { r := shippedWithAction(); r.PriceChange, r.Shock = 0, 0; return r },
	"returns": func() corpus.Recipe { r := shippedWithAction(); r.BudgetOnly = 0; return r },
}

// shippedWithAction is the shipped recipe with the previous action visible; each run
// hides it unless its network sees its history.
func shippedWithAction() corpus.Recipe {
	r := corpus.ShippedRecipe()
	r.HidePreviousAction = false
	return r
}

// trainingRun returns the training run of a name, nil if there is none.
func (c *Config) trainingRun(name string) *trainingRun {
	list := c.trainingRuns()
	if i := slices.IndexFunc(list, func(r trainingRun) bool { return r.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

//go:embed runs.yaml
var runsYAML []byte

func (c *Config) trainingRuns() (list []trainingRun) {
	configs.MustDecode(runsYAML, &list)
	for _, a := range c.sizes() {
		if a != c.Train.Arch {
			list = append(list, trainingRun{Name: sizeName(a), Recipe: "shipped", arch: a})
		}
	}
	return list
}

// publishedDispatch is the training run of the published form on the dispatch teacher's flights.
const publishedDispatch = "published-dispatch"

// published returns the configuration of PrefDT as published in a training run, and its tokens:
// those that the study's other arms have.
func (c *Config) published(run string) (p prefdttrain.Config, tokens float64) {
	p = prefdttrain.Default()
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

//go:embed arms.yaml
var armsYAML []byte

// arms returns every arm, in the order they are measured.
func (c *Config) arms() (list []*row) {
	configs.MustDecode(armsYAML, &list)
	for _, a := range c.sizes() {
		if name := c.sizeArmName(a); name != "base" {
			text := fmt.Sprintf("the base at width %d, %d layers, context of %d", a.Width, a.Layers, a.Context)
			list = append(list, &row{Name: name, Description: text, Kind: kindTrained, TrainingRun: name,
				Decoder: inference.DecoderDispatch})
		}
	}
	for _, name := range c.headsArmNames() {
		if run := strings.TrimSuffix(name, headsSuffix); run != "base" {
			text := "the same network, the paper's heads"
			list = append(list, &row{Name: name, Description: text, Kind: kindTrained, TrainingRun: run, Decoder: inference.DecoderHeads})
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
