package corpus

import (
	"fmt"
	"math/rand/v2"

	"prefdt/inference/checkpoint"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
)

// Recipe defines how settings are drawn and what happens in flight. Its fractions
// are of all flights; each is a flag of offline corpus.
type Recipe struct {
	Heuristic    float64 `json:"heuristic" yaml:"heuristic"`
	PriceChange  float64 `json:"change" yaml:"change"`
	Shock        float64 `json:"shock" yaml:"shock"`
	BudgetOnly   float64 `json:"bare" yaml:"bare"`
	PriceOnly    float64 `json:"priced" yaml:"priced"`
	RandomWorlds float64 `json:"worlds" yaml:"worlds"`
	Unreported   float64 `json:"unheard" yaml:"unheard"`
	Gust         float64 `json:"gust" yaml:"gust"`
	AircraftLoss float64 `json:"lost" yaml:"lost"`
	WorldCount   int     `json:"variety" yaml:"variety"` // random worlds to choose from
	// HidePreviousAction makes the row of the previous action a constant. A policy
	// that reads its previous action copies the price of that action, and a budget
	// drifts: the joules left predict a flight's one price less well than the flight
	// so far does.
	HidePreviousAction bool `json:"forget" yaml:"forget"`
}

type recipeFraction struct {
	name        string
	value       *float64
	description string
}

func (r *Recipe) fractions() []recipeFraction {
	return []recipeFraction{
		{"heuristic", &r.Heuristic, "flown by scripted heuristics (the paper: 0.2)"},
		{"change", &r.PriceChange, "whose price changes at a random slot"},
		{"shock", &r.Shock, "under a propulsion multiplier, uniform in [0.8, 2], from a random slot"},
		{"bare", &r.BudgetOnly, "whose request is a total of joules alone"},
		{"priced", &r.PriceOnly, "whose request is a price alone, without returns"},
		{"worlds", &r.RandomWorlds, "in a random world, all in the first half so that training ends in the standard world: fleet, " +
			"users, slots, area, tasks, CPUs, channel, contention, crowded starts, airframe, battery"},
		{"unheard", &r.Unreported, "of which the policy receives only some of the reports"},
		{"gust", &r.Gust, "in gusts of up to 15 % of flight power"},
		{"lost", &r.AircraftLoss, "that lose an aircraft at a random slot"},
	}
}

// ShippedRecipe is the recipe of the shipped checkpoint.
func ShippedRecipe() Recipe {
	return Recipe{
		HidePreviousAction: true, PriceChange: 0.4, Shock: 0.3, BudgetOnly: 0.35, PriceOnly: 0.1,
		RandomWorlds: 0.1, WorldCount: 400, Unreported: 0.05, Gust: 0.1, AircraftLoss: 0.05,
	}
}

// Check returns what is wrong with a recipe.
func (r Recipe) Check() error {
	for _, f := range r.fractions() {
		if !(*f.value >= 0 && *f.value <= 1) {
			return fmt.Errorf("recipe %s is %v, want a fraction", f.name, *f.value)
		}
	}
	if r.WorldCount < 0 || r.WorldCount > 10000 || r.RandomWorlds > 0 && r.WorldCount == 0 {
		return fmt.Errorf("recipe variety is %d worlds, want 1 to 10000 where a fraction of the flights is in them", r.WorldCount)
	}
	return nil
}

// Episode is one row of the manifest: all that the world needs to replay it.
type Episode struct {
	Seed uint64 `json:"seed" parquet:"seed"`
	Tier string `json:"tier" parquet:"tier,dict"` // which draw its setting came from
	// Teacher is "dispatch", "rule", or "heuristic".
	Teacher string  `json:"teacher" parquet:"teacher,dict"`
	Member  int     `json:"member" parquet:"member"` // of the archive, or the heuristic's mode
	Price   float64 `json:"price_s_per_j" parquet:"price_s_per_j"`
	Omega   float64 `json:"omega" parquet:"omega"` // the delay share it is stored under

	ChangeSlot         int     `json:"change_slot" parquet:"change_slot"` // 0: none
	ChangePrice        float64 `json:"change_price_s_per_j" parquet:"change_price_s_per_j"`
	ChangeOmega        float64 `json:"change_omega" parquet:"change_omega"`
	ShockSlot          int     `json:"shock_slot" parquet:"shock_slot"`
	ShockFactor        float64 `json:"shock_factor" parquet:"shock_factor"` // 0: none
	BudgetOnly         bool    `json:"bare" parquet:"bare"`
	PriceOnly          bool    `json:"priced" parquet:"priced"`
	World              int     `json:"world" parquet:"world"`     // 0: the standard one, else from 1 into the manifest's worlds
	UnreportedFraction float64 `json:"unheard" parquet:"unheard"` // fraction of the reports that the policy does not receive
	Gust               float64 `json:"gust" parquet:"gust"`
	LostSlot           int     `json:"lost_slot" parquet:"lost_slot"` // 0: none; aircraft 1 is lost

	DelayS  float64 `json:"delay_s" parquet:"delay_s"` // realised
	EnergyJ float64 `json:"energy_j" parquet:"energy_j"`
}

// fitsConditioner reports whether the conditioner is fitted on the flight: an
// expert's, at one price, in the standard world, without a shock or the loss of
// an aircraft. Gusts are not excluded: their mean is zero, so over a mission
// they scatter the energy without moving it.
func (f *Episode) fitsConditioner() bool {
	return f.Teacher != heuristicTeacher && f.ChangeSlot == 0 && f.ShockFactor == 0 && f.World == 0 && f.LostSlot == 0
}

const (
	dispatchTeacher  = "dispatch"
	ruleTeacher      = "rule"
	heuristicTeacher = "heuristic"
)

// sampler draws flights; each depends on the corpus seed and its number alone.
type sampler struct {
	*Manifest
	shares []float64 // of the archive's members
	curve  checkpoint.PriceCurve
}

// episode draws the i-th flight, before it is flown. Seeds run through the
// training range.
func (d *sampler) episode(i int) Episode {
	r := rand.New(rand.NewPCG(d.Seed, uint64(i)))
	f := Episode{Seed: uint64(i) % (seeds.TrainingLast + 1), Teacher: dispatchTeacher}
	if d.Archive.Genes != nil {
		f.Teacher = ruleTeacher
	}
	f.Tier, f.Member, f.Price, f.Omega = d.setting(r)
	if r.Float64() < d.Recipe.Heuristic {
		f.Teacher, f.Member, f.Price = heuristicTeacher, r.IntN(len(heuristics)), 0
	}
	c := &d.World
	if f.Teacher == dispatchTeacher && i < len(d.Flights)/2 && r.Float64() < 2*d.Recipe.RandomWorlds {
		f.World = 1 + r.IntN(len(d.Worlds))
		c = &d.Worlds[f.World-1]
	}
	if f.Teacher == dispatchTeacher && r.Float64() < d.Recipe.PriceChange {
		f.ChangeSlot = 1 + r.IntN(max(c.Slots-1, 1))
		_, _, f.ChangePrice, f.ChangeOmega = d.setting(r)
	}
	if r.Float64() < d.Recipe.Shock {
		f.ShockSlot, f.ShockFactor = r.IntN(c.Slots), 0.8+1.2*r.Float64()
	}
	switch x := r.Float64(); {
	case x < d.Recipe.BudgetOnly:
		f.BudgetOnly = true
	case x < d.Recipe.BudgetOnly+d.Recipe.PriceOnly:
		f.PriceOnly = true
	case f.World != 0: // the conditioner is fitted on the standard world
		f.BudgetOnly, f.PriceOnly = x < d.Recipe.BudgetOnly+d.Recipe.PriceOnly+0.25, x >= d.Recipe.BudgetOnly+d.Recipe.PriceOnly+0.25
	}
	if r.Float64() < d.Recipe.Unreported {
		f.UnreportedFraction = r.Float64()
		if r.Float64() < 0.2 {
			f.UnreportedFraction = 1
		}
	}
	if r.Float64() < d.Recipe.Gust {
		f.Gust = 0.15 * r.Float64()
	}
	if c.Aircraft > 1 && r.Float64() < d.Recipe.AircraftLoss {
		f.LostSlot = 1 + r.IntN(max(c.Slots-1, 1))
	}
	return f
}

// setting draws a setting and the member, and price, that realises it.
func (d *sampler) setting(r *rand.Rand) (tier string, member int, price, omega float64) {
	var y float64
	switch x := r.Float64(); {
	case x < 0.12:
		tier, y = "least delay", 0.06*r.Float64()
	case x < 0.17:
		tier, y = "least energy", 0.97+0.03*r.Float64()
	case x < 0.72:
		tier, y = "even place", r.Float64()
	default:
		tier, y = "even omega", interpolate(d.shares, d.curve.FrontPositions, r.Float64())
	}
	if member = pareto.Nearest(d.curve.FrontPositions, y); d.Archive.Prices == nil {
		return tier, member, 0, d.shares[member] // rules lie at their members only
	}
	return tier, member, d.curve.PriceSPerJ(y), interpolate(d.curve.FrontPositions, d.shares, y)
}
