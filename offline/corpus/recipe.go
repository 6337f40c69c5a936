package corpus

import (
	"fmt"
	"math/rand/v2"

	"prefdt/inference/checkpoint"
)

// Recipe says how settings are drawn and what happens in flight.
type Recipe struct {
	// Draw is "axis" (settings even along the front, at continuous prices) or
	// "paper" (Dirichlet tiers, band, nearest member, corner emphasis).
	Draw string `json:"draw" yaml:"draw"`
	// Heuristic is the fraction of flights by scripted heuristics (the paper: 0.2).
	Heuristic float64 `json:"heuristic" yaml:"heuristic"`
	// Change is the fraction of flights whose price changes at a random slot.
	Change float64 `json:"change" yaml:"change"`
	// Shock is the fraction of flights under a propulsion multiplier, uniform
	// in [0.8, 2], from a random slot.
	Shock float64 `json:"shock" yaml:"shock"`
	// Bare is the fraction of flights read as a budget alone.
	Bare float64 `json:"bare" yaml:"bare"`
}

// Shipped is the recipe of the shipped checkpoint.
func Shipped() Recipe { return Recipe{Draw: "axis", Change: 0.4, Shock: 0.3, Bare: 0.35} }

// Paper is the recipe of Sec. IV-C.
func Paper() Recipe { return Recipe{Draw: "paper", Heuristic: 0.2} }

// Check says what is wrong with a recipe.
func (r Recipe) Check() error {
	if r.Draw != "axis" && r.Draw != "paper" {
		return fmt.Errorf(`recipe draws by %q, want "axis" or "paper"`, r.Draw)
	}
	for _, f := range []struct {
		name string
		x    float64
	}{{"heuristic", r.Heuristic}, {"change", r.Change}, {"shock", r.Shock}, {"bare", r.Bare}} {
		if !(f.x >= 0 && f.x <= 1) {
			return fmt.Errorf("recipe %s is %v, want a fraction", f.name, f.x)
		}
	}
	return nil
}

// Flight is one row of the manifest: all that the world needs to replay it.
type Flight struct {
	Seed uint64 `json:"seed" parquet:"seed"`
	Tier string `json:"tier" parquet:"tier,dict"` // where its setting was drawn
	// Teacher is "dispatch", "rule", or "heuristic".
	Teacher string  `json:"teacher" parquet:"teacher,dict"`
	Member  int     `json:"member" parquet:"member"` // of the archive, or the heuristic's mode
	Price   float64 `json:"price_s_per_j" parquet:"price_s_per_j"`
	Omega   float64 `json:"omega" parquet:"omega"` // the setting it is stored under

	ChangeSlot  int     `json:"change_slot" parquet:"change_slot"` // 0: none
	ChangePrice float64 `json:"change_price_s_per_j" parquet:"change_price_s_per_j"`
	ChangeOmega float64 `json:"change_omega" parquet:"change_omega"`
	ShockSlot   int     `json:"shock_slot" parquet:"shock_slot"`
	ShockFactor float64 `json:"shock_factor" parquet:"shock_factor"` // 0: none
	Bare        bool    `json:"bare" parquet:"bare"`

	DelayS  float64 `json:"delay_s" parquet:"delay_s"` // realised
	EnergyJ float64 `json:"energy_j" parquet:"energy_j"`
}

// Clean reports whether the flight is an expert's at one price in calm air,
// what the conditioner is fitted on.
func (f *Flight) Clean() bool {
	return f.Teacher != heuristicTeacher && f.ChangeSlot == 0 && f.ShockFactor == 0
}

const (
	dispatchTeacher  = "dispatch"
	ruleTeacher      = "rule"
	heuristicTeacher = "heuristic"
)

// drawer draws flights; each depends on the corpus seed and its number alone.
type drawer struct {
	recipe  Recipe
	archive *Archive
	shares  []float64 // of the archive's members
	places  []float64
	axis    checkpoint.PriceAxis
	slots   int
	seed    uint64
}

func newDrawer(r Recipe, a *Archive, slots int, seed uint64) *drawer {
	return &drawer{recipe: r, archive: a, shares: a.shares(), places: a.places(), axis: a.Axis(), slots: slots, seed: seed}
}

// flight draws the i-th flight, before it is flown. Seeds run through the
// training range.
func (d *drawer) flight(i int) Flight {
	r := rand.New(rand.NewPCG(d.seed, uint64(i)))
	f := Flight{Seed: uint64(i) % trainingSeeds, Teacher: dispatchTeacher}
	if d.archive.Genes != nil {
		f.Teacher = ruleTeacher
	}
	f.Tier, f.Member, f.Price, f.Omega = d.setting(r)
	if r.Float64() < d.recipe.Heuristic {
		f.Teacher, f.Member, f.Price = heuristicTeacher, r.IntN(heuristics), 0
	}
	if f.Teacher == dispatchTeacher && r.Float64() < d.recipe.Change {
		f.ChangeSlot = 1 + r.IntN(max(d.slots-1, 1))
		_, _, f.ChangePrice, f.ChangeOmega = d.setting(r)
	}
	if r.Float64() < d.recipe.Shock {
		f.ShockSlot, f.ShockFactor = r.IntN(d.slots), 0.8+1.2*r.Float64()
	}
	f.Bare = r.Float64() < d.recipe.Bare
	return f
}

// trainingSeeds is the size of the training range.
const trainingSeeds = 100000

// setting draws a setting and the member, and price, that realises it.
func (d *drawer) setting(r *rand.Rand) (tier string, member int, price, omega float64) {
	if d.recipe.Draw == "paper" {
		return d.paperSetting(r)
	}
	var y float64
	switch x := r.Float64(); {
	case x < 0.12:
		tier, y = "least delay", 0.06*r.Float64()
	case x < 0.17:
		tier, y = "least energy", 0.97+0.03*r.Float64()
	case x < 0.72:
		tier, y = "even place", r.Float64()
	default:
		tier, y = "even omega", interpolate(d.shares, d.places, r.Float64())
	}
	if member = nearest(d.places, y); d.archive.Prices == nil {
		return tier, member, 0, d.shares[member] // rules lie at their members only
	}
	return tier, member, d.axis.Lambda(y), interpolate(d.places, d.shares, y)
}

// paperSetting follows Sec. IV-C: Dirichlet tiers of entropy, a third of the
// draws each, rejected outside the band widened by a tolerance, a quarter of
// them moved into the share window of the four members of least delay, then
// the member of nearest realised share.
func (d *drawer) paperSetting(r *rand.Rand) (tier string, member int, price, omega float64) {
	const tolerance, corner = 0.05, 0.25
	low, high := d.shares[0], d.shares[len(d.shares)-1]
	if r.Float64() < corner {
		window := d.shares[min(3, len(d.shares)-1)]
		tier, omega = "corner", low+(window-low)*r.Float64()
	} else {
		tiers := []int{1, 3, 8}
		alpha := tiers[r.IntN(len(tiers))]
		tier = fmt.Sprintf("dirichlet %d", alpha)
		for {
			if omega = dirichlet(r, alpha); omega >= low-tolerance && omega <= high+tolerance {
				break
			}
		}
	}
	member = nearest(d.shares, omega)
	if d.archive.Prices != nil {
		price = d.archive.Prices[member]
	}
	return tier, member, price, omega
}

// dirichlet draws the first entry of a symmetric two-entry Dirichlet
// distribution with an integer parameter, as a ratio of gamma variates.
func dirichlet(r *rand.Rand, alpha int) float64 {
	a, b := 0.0, 0.0
	for range alpha {
		a += r.ExpFloat64()
		b += r.ExpFloat64()
	}
	return a / (a + b)
}
