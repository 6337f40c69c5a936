package paper

import (
	_ "embed"
	"math"

	"prefdt/configs"
)

var none = math.NaN()

// rows are what the paper prints, by table, and the arms whose figures stand beside it.
type rows struct {
	Methods, Teachers []row
	Ours              []row // arms of a study
	Removals          []removal
	Interactions      []conclusion
	AmongPPO          []comparison      `yaml:"among_ppo"`
	Budgets           map[string]string // by policy
	Link              []struct{ Name, Paper, Rules string }
	Substitution      []struct{ Rate, Paper, Rules float64 }
	Cost              []struct {
		Name, Interaction string
		CoreS             float64 `yaml:"core_s"`
		N                 int
	}
}

// row is one row of a table, and the arm whose figures stand beside the paper's.
type row struct {
	Class, Name string
	Arm         string
	Printed     *printed // nil: the paper has no such row
	Note        string   // how ours is made otherwise, if it is
}

// printed is a row of the paper's tables of fronts; nil are figures that it does not have.
type printed struct {
	HV, Std, IGD, Fidelity *float64 // hypervolume in 1e6 s J
	ReachS                 *float64 `yaml:"reach_s"`
	CornerS                *float64 `yaml:"corner_s"`
	N                      int
	Verdict                string // of eq. (criterion)
}

// figure returns a printed figure, NaN where there is none.
func figure(x *float64) float64 {
	if x == nil {
		return none
	}
	return *x
}

// removal is a row of the paper's table of ablations. Those on the PPO corpus are taken from "prefdt",
// those on the archive's corpus from "prefdt-rules" and, in the published form, "published".
type removal struct {
	Module, How string
	Result      string // in the paper's words
	Comparisons []comparison
}

// comparison sets one arm against another.
type comparison struct {
	Arm, Base string
	Paper     *float64 // its difference of hypervolume, or that of two that it prints on the same seeds
	Derived   bool     // from other figures that the paper prints
}

//go:embed rows.yaml
var rowsYAML []byte

// paperRows is what the paper prints.
var paperRows = func() (r rows) {
	configs.MustDecode(rowsYAML, &r)
	return r
}()

// weakerRows are the arms on the flights of weaker PPO policies, with those on the flights of the good ones.
var weakerRows = []struct{ weak, strong string }{{"ppo-weaker", "ppo-plain"}, {"prefdt-weaker", "prefdt"}, {"peda-weaker", "peda"},
	{"omega-bc-weaker", "omega-bc"}}

// printedOf returns the paper's figures of an arm that its table of methods has.
func printedOf(arm string) *printed {
	for _, r := range paperRows.Methods {
		if r.Arm == arm {
			return r.Printed
		}
	}
	return nil
}
