package study

import (
	"fmt"
	"strings"

	"prefdt/inference"
	"prefdt/inference/model"
	"prefdt/inference/token"
	"prefdt/offline/corpus"
	"prefdt/offline/train"
)

// Kinds of arms.
const (
	kindFlagship = "flagship" // the shipped checkpoint
	kindTrained  = "trained"  // our network, trained by the study
	kindPaper    = "paper"    // the paper's network, trained by the study
	kindRules    = "rules"    // an archive of searched rules
	kindDispatch = "dispatch" // the dispatch teacher at its prices
	kindRandom   = "random"
)

// Arm is one row of the study.
type Arm struct {
	Name string `json:"name"`
	What string `json:"-"`
	Kind string `json:"kind"`
	// Run is the training run that made it, for the trained kinds.
	Run     string            `json:"run,omitempty"`
	Decoder inference.Decoder `json:"decoder,omitempty"`
	// Members of a searched archive.
	Members int `json:"members,omitempty"`
	// Centroid flies towards centroids in place of these.
	Centroid bool `json:"centroid,omitempty"`
	// Beside keeps delay entry and omega beside a budget, as the paper does,
	// for networks that never saw them dropped.
	Beside bool `json:"beside,omitempty"`
	// Blind arms take no request and make one point.
	Blind bool `json:"blind,omitempty"`
	// Headline arms fly on all seeds.
	Headline bool `json:"headline,omitempty"`
	// Link arms are also flown over a lossy link.
	Link bool `json:"link,omitempty"`
}

// run is one training run of the study.
type run struct {
	name   string
	recipe string // of the corpus, see recipes
	// remember shows the network its action before, and twenty slots, in place
	// of the base's one.
	remember bool
	arch     func(*model.Arch)
	loss     func(*train.Weights)
	// blind lists the features that are held constant, by kind of row.
	blind token.Layout
	// lesson changes what is learned of a flight.
	lesson func(*train.Episode)
}

// recipes are the corpora that runs learn from.
var recipes = map[string]struct {
	rules bool // of the searched rules, not of the dispatch teacher
	make  func() corpus.Recipe
}{
	"shipped":        {false, remembering},
	"steady":         {false, func() corpus.Recipe { r := remembering(); r.Change, r.Shock = 0, 0; return r }},
	"whole":          {false, func() corpus.Recipe { r := remembering(); r.Bare = 0; return r }},
	"paper":          {true, corpus.Paper},
	"paper-dispatch": {false, corpus.Paper},
}

// remembering is the shipped recipe with the action before in sight; each run
// says whether its network sees it.
func remembering() corpus.Recipe {
	r := corpus.Shipped()
	r.Forget = false
	return r
}

var (
	allowance = []string{"allowance", "log allowance", "allowance to go", "allowance of the edge scale"}
	toGo      = []string{"delay to go", "energy to go", "delay per slot"}
	asked     = []string{"omega delay", "place", "dropped"}
)

// runs returns the training runs; every one is the base but for one thing.
func (c *Config) runs() []run {
	list := []run{
		{name: "base", recipe: "shipped"},
		{name: "remembering", recipe: "shipped", remember: true},
		{name: "no-allowance", recipe: "shipped", blind: token.Layout{Return: allowance}},
		{name: "no-price", recipe: "shipped", loss: func(w *train.Weights) { w.Price = 0 }},
		{name: "dmax-move", recipe: "shipped", lesson: func(e *train.Episode) {
			for i := range e.Target.Move {
				e.Target.Move[i] /= e.Target.MoveScale
			}
			e.Target.MoveScale = 1
		}},
		{name: "steady-flights", recipe: "steady"},
		{name: "no-mask", recipe: "shipped", lesson: func(e *train.Episode) {
			for i := range e.Target.Weight {
				e.Target.Weight[i] = 1
			}
		}},
		{name: "no-dropout", recipe: "whole"},
		{name: "paper-features", recipe: "shipped", blind: token.Layout{
			Pair:     []string{"best gain", "rate behind the best", "T_off at a third", "local misses", "least offload", "edge energy"},
			Aircraft: []string{"users with the best gain here"},
		}},
		{name: "no-track", recipe: "shipped", blind: token.Layout{Aircraft: []string{"track east", "track north", "target distance"}}},
		{name: "unconditioned", recipe: "whole", remember: true, blind: token.Layout{
			Return: join(allowance, toGo, asked), State: asked, Action: asked,
		}},
		{name: "omega-bc", recipe: "whole", remember: true, blind: token.Layout{Return: join(allowance, toGo)}},
		{name: "paper-form", recipe: "paper", remember: true},
		{name: "paper-form-dispatch", recipe: "paper-dispatch", remember: true},
	}
	for _, a := range c.sizes() {
		if a != c.Train.Arch {
			list = append(list, run{name: sizeName(a), recipe: "shipped", arch: func(x *model.Arch) { *x = a }})
		}
	}
	return list
}

func join(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
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
				if c.Grid || changed <= 1 || smallest || largest {
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

// sizeArm returns the arm of a size; the base's is called that.
func (c *Config) sizeArm(a model.Arch) string {
	if a == c.Train.Arch {
		return "base"
	}
	return sizeName(a)
}

// context returns the arm of the base under another context.
func (c *Config) context(slots int) string {
	a := c.Train.Arch
	a.Context = slots
	return c.sizeArm(a)
}

// arms returns every arm, in the order they are measured: those that others
// are read against first.
func (c *Config) arms() []Arm {
	list := []Arm{
		{Name: "dispatch-teacher", What: "exact dispatch at a sweep of prices, places of least expected delay", Kind: kindDispatch, Headline: true},
		{Name: "flagship", What: "the shipped checkpoint, price into exact dispatch", Kind: kindFlagship, Decoder: inference.Dispatch, Headline: true, Link: true},
		{Name: "flagship-snapped", What: "the shipped checkpoint, association by the heads, offload in closed form", Kind: kindFlagship, Decoder: inference.Snapped, Headline: true},
		{Name: "flagship-heads", What: "the shipped checkpoint, the paper's heads", Kind: kindFlagship, Decoder: inference.Heads, Headline: true},
		{Name: "rules-50", What: "the paper's teacher: NSGA-II over its ten-gene rule, population 50", Kind: kindRules, Members: 50, Headline: true},
		{Name: "rules-101", What: "the same, population 101", Kind: kindRules, Members: 101, Headline: true},
		{Name: "random", What: "every decision at random", Kind: kindRandom, Headline: true},
		{Name: "dispatch-centroid", What: "the dispatch teacher, centroids in place of these", Kind: kindDispatch, Centroid: true, Headline: true},
		{Name: "paper-form", What: "the paper's network on the paper's corpus of rules, the base's budget", Kind: kindPaper, Run: "paper-form", Beside: true, Link: true, Headline: true},
		{Name: "paper-form-dispatch", What: "the paper's network on the paper's recipe, from the dispatch teacher", Kind: kindPaper, Run: "paper-form-dispatch", Beside: true},
		{Name: "base", What: "the flagship's recipe in the study's budget", Kind: kindTrained, Run: "base", Decoder: inference.Dispatch, Headline: true},
		{Name: "remembering", What: "a context of 20 slots and the action before, as the paper's", Kind: kindTrained, Run: "remembering", Decoder: inference.Dispatch},
		{Name: "base-snapped", What: "exact decoding taken back: the heads' association, closed-form offload", Kind: kindTrained, Run: "base", Decoder: inference.Snapped},
		{Name: "base-heads", What: "exact decoding taken back: the paper's heads", Kind: kindTrained, Run: "base", Decoder: inference.Heads},
		{Name: "no-price-snapped", What: "no price head, snapped decoder", Kind: kindTrained, Run: "no-price", Decoder: inference.Snapped},
		{Name: "no-price-heads", What: "no price head, the paper's heads", Kind: kindTrained, Run: "no-price", Decoder: inference.Heads},
		{Name: "no-allowance", What: "allowance features taken out", Kind: kindTrained, Run: "no-allowance", Decoder: inference.Dispatch},
		{Name: "steady-flights", What: "no price-change and no multiplier flights in the corpus", Kind: kindTrained, Run: "steady-flights", Decoder: inference.Dispatch},
		{Name: "no-mask", What: "loss on all slots, also before a flight's last change", Kind: kindTrained, Run: "no-mask", Decoder: inference.Dispatch},
		{Name: "no-dropout", What: "no bare flights; a budget keeps delay entry and omega beside it, as the paper's", Kind: kindTrained, Run: "no-dropout", Decoder: inference.Dispatch, Beside: true},
		{Name: "dmax-move", What: "the loss of the displacement in units of D_max", Kind: kindTrained, Run: "dmax-move", Decoder: inference.Dispatch},
		{Name: "no-track", What: "no motion target among the aircraft's features", Kind: kindTrained, Run: "no-track", Decoder: inference.Dispatch},
		{Name: "paper-features", What: "user features of the paper alone, exact decoding", Kind: kindTrained, Run: "paper-features", Decoder: inference.Dispatch},
		{Name: "paper-features-heads", What: "user features of the paper alone, the paper's heads", Kind: kindTrained, Run: "paper-features", Decoder: inference.Heads},
		{Name: "unconditioned", What: "unconditioned DT: conditioning rows zero, one point", Kind: kindTrained, Run: "unconditioned", Decoder: inference.Heads, Blind: true, Headline: true},
		{Name: "omega-bc", What: "omega-BC: the preference alone, no returns", Kind: kindTrained, Run: "omega-bc", Decoder: inference.Heads, Beside: true, Headline: true},
	}
	for _, a := range c.sizes() {
		if name := c.sizeArm(a); name != "base" {
			list = append(list, Arm{Name: name, What: fmt.Sprintf("the base at width %d, %d layers, context of %d", a.Width, a.Layers, a.Context), Kind: kindTrained, Run: name, Decoder: inference.Dispatch})
		}
	}
	for _, name := range c.sizedHeads() {
		if run := strings.TrimSuffix(name, heads); run != "base" {
			list = append(list, Arm{Name: name, What: "the same network, the paper's heads", Kind: kindTrained, Run: run, Decoder: inference.Heads})
		}
	}
	return list
}

const (
	heads    = "-heads"
	smallest = "width64-layers1-context1"
)

// sizedHeads returns the arms that decode by the heads, one for each width and
// depth.
func (c *Config) sizedHeads() (list []string) {
	for _, a := range c.sizes() {
		if a.Context == c.Train.Arch.Context {
			list = append(list, c.sizeArm(a)+heads)
		}
	}
	return list
}
