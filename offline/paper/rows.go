package paper

import (
	"fmt"
	"math"
	"slices"
)

// What the paper prints, by table. Figures that a row does not have are NaN.

var none = math.NaN()

// printed is a row of the paper's tables of fronts.
type printed struct {
	hv, std, igd, fidelity, reachS, cornerS float64 // hypervolume in 1e6 s J
	n                                       int
	verdict                                 string // of eq. (criterion)
}

// String returns the figures that methods are compared by.
func (p *printed) String() string {
	return fmt.Sprintf("%.2f, %.2f, %.0f s, %s", p.hv, p.fidelity, p.reachS, p.verdict)
}

// row is one row of a table, and the arm whose figures stand beside the paper's.
type row struct {
	class, name string
	arm         string
	printed     *printed // nil: the paper has no such row
	note        string   // how ours is made otherwise, if it is
}

const anyOmega = "its text may mean this grid, most of which no flight of the corpus is stored under"

// methodRows is the paper's table of methods, with the Lagrangian of its text.
var methodRows = []row{
	{"1 learned", "PrefDT (shipped)", fullArm, &printed{99.47, 1.18, 402, 0.93, 601, none, 100, "yes"}, "ours imitates our teacher, which stands above the paper's as well, and is of a quarter of the paper's parameters"},
	{"1 learned", "PrefDT (shipped), at the declared budget", declaredArm, nil, "the row that the order of the methods is judged by"},
	{"1 learned", "PrefDT (shipped), preferences even from 0 to 1", armName(fullArm, whole), nil, "its text has fidelity, 0.93, on the full uniform grid, and may mean this one: 12 of our 21 preferences lie past the upper end of our band and are one flight, and with 12 equal outcomes fidelity is 0.902 at most; the paper's band is wider"},
	{"1 learned", "PrefDT (PPO corpus)", "prefdt", &printed{90.28, 2.48, 1457, 0.91, 540, none, 100, "yes"}, "our PPO policies flew its corpus"},
	{"1 learned", "PEDA, as published", "peda", &printed{82.87, 2.17, 1594, 0.76, 398, none, 100, "no (both)"}, "our PPO policies flew its corpus"},
	{"1 learned", "PEDA + attention pooling", "peda-pooled", &printed{84.18, 1.98, 1298, 0.68, 491, none, 100, "no (both)"}, "our PPO policies flew its corpus"},
	{"1 learned", "PrefDT (PPO corpus), preferences even from 0 to 1", armName("prefdt", whole), nil, anyOmega},
	{"1 learned", "PEDA, preferences even from 0 to 1", armName("peda", whole), nil, anyOmega},
	{"1 learned", "PEDA + attention pooling, preferences even from 0 to 1", armName("peda-pooled", whole), nil, anyOmega},
	{"1 learned", "omega-BC, preferences even from 0 to 1", armName("omega-bc", whole), nil, anyOmega},
	{"1 learned", "IQL+omega (archive corpus)", "iql-archive", &printed{96.23, 1.82, 1587, 0.94, 413, none, 10, "no (reach)"}, "its preference is an importance, as its reward has it; headings as unit vectors, users with their latencies"},
	{"1 learned", "IQL+omega (PPO corpus)", "iql-ppo", &printed{91.83, 1.48, 1221, 0.95, 528, none, 10, "yes"}, "our PPO policies flew its corpus; its preference is an importance; headings as unit vectors, and users with the latencies that the other rows of this corpus do not have"},
	{"1 learned", "PGMORL", "pgmorl", &printed{87.34, 1.23, 4501, 0.84, 15, none, 10, "no (both)"}, "of its archive the policies of the best utility at each preference fly, not six; the schedule is ours"},
	{"1 learned", "Per-preference PPO", "ppo-plain", &printed{90.72, 1.54, 1369, 0.95, 396, none, 100, "no (reach)"}, "the paper's states, actions, steps and preferences; a path of each user's own and all other settings are ours"},
	{"1 learned", "Per-preference PPO without a path of each user's own", "ppo-pooled", nil, "the summary of a slot decides for each of its users"},
	{"1 learned", "Per-preference PPO without it, after a quarter of the steps", "ppo-weaker", nil, "the next three learn from its flights; see the order of the methods"},
	{"1 learned", "PrefDT (weaker PPO corpus)", "prefdt-weaker", nil, "see the order of the methods"},
	{"1 learned", "PEDA, as published (weaker PPO corpus)", "peda-weaker", nil, "see the order of the methods"},
	{"1 learned", "omega-BC (weaker PPO corpus)", "omega-bc-weaker", nil, "see the order of the methods"},
	{"1 learned", "Per-preference PPO, as we would make it", "ppo", nil, "headings as unit vectors, users with their latencies, a discount of 0.95"},
	{"1 learned", "omega-BC", "omega-bc", &printed{89.23, 2.88, 1237, 0.49, 458, none, 100, "no (both)"}, "our PPO policies flew its corpus"},
	{"1 learned", "PrefDT, ideal-point targets", "prefdt-ideal", &printed{90.21, 2.21, 1475, 0.98, 170, none, 10, "no (reach)"}, "our PPO policies flew its corpus"},
	{"2 model-based", "SCA oracle", "sca-oracle", &printed{99.91, 1.25, 314, 0.88, 607, none, 10, "no (order)"}, "relaxation, rounding and trust region are ours"},
	{"2 model-based", "SCA-MPC", "sca-mpc", &printed{99.94, 1.27, 597, 0.93, 606, none, 10, "yes"}, "relaxation, rounding and trust region are ours"},
	{"3 teacher", "Teacher", "rules-50", &printed{99.80, 1.31, 351, none, 616, none, 10, "—"}, "our search, of the same ten genes"},
	{"floors", "Unconditioned DT", "unconditioned", &printed{79.96, 5.26, 3162, none, 100, none, 10, "—"}, "decisions are the likeliest: one point, and no reach"},
	{"floors", "Random", "random", &printed{62.40, none, 18529, none, 193, none, 1, "—"}, "the paper leaves open what is drawn"},
}

// weakerRows are the arms on the flights of weaker PPO policies, with those on the flights of the good ones.
var weakerRows = []struct{ weak, strong string }{{"ppo-weaker", "ppo-plain"}, {"prefdt-weaker", "prefdt"}, {"peda-weaker", "peda"}, {"omega-bc-weaker", "omega-bc"}}

// printedOf returns the paper's figures of an arm of methodRows that has some.
func printedOf(arm string) *printed {
	return methodRows[slices.IndexFunc(methodRows, func(r row) bool { return r.arm == arm })].printed
}

// teacherRows is the paper's table of the teacher's populations.
var teacherRows = []row{
	{"", "NSGA-II pop 101 (best at fixed budget)", "rules-101", &printed{hv: 100.096, cornerS: none}, ""},
	{"", "NSGA-II pop 101 (2x budget)", "rules-101-twice", &printed{hv: 100.120, cornerS: none}, ""},
	{"", "NSGA-II pop 21", "rules-21", &printed{hv: 99.887, cornerS: 102.8}, ""},
	{"", "NSGA-II pop 50 (corpus source)", "rules-50", &printed{hv: 99.786, cornerS: 102.0}, ""},
	{"", "PrefDT (shipped), K=101", armName(fullArm, dense), &printed{hv: 99.824, cornerS: 103.6}, ""},
	{"", "PrefDT (shipped), K=21", armName(fullArm, axis), &printed{hv: 99.466, cornerS: 104.3}, ""},
	{"", "PrefDT (archive corpus, no corner/physics), K=21", "published-uniform-raw-axis", &printed{hv: 99.229, cornerS: 105.0}, "ours has the declared budget"},
}

// comparison sets one arm against another; printed is the paper's difference of hypervolume, or the
// difference of two that it prints on the same seeds.
type comparison struct {
	arm, base string
	printed   float64
	derived   bool // from other figures that the paper prints
}

// removal is a row of the paper's table of ablations.
type removal struct {
	module, how string
	result      string // in the paper's words
	comparisons []comparison
	more        func(*tables) []string // sentences of figures that no comparison has
}

// removals is the paper's table of ablations. Those on the PPO corpus are taken from "prefdt",
// those on the archive's corpus from "prefdt-rules" and, in the published form, "published".
var removals = []removal{
	{"Attention pooling", "zero padding of a fixed user count", "-2.90 HV (p = 2.0e-7)", []comparison{{"prefdt-padded", "prefdt", -2.90, false}}, nil},
	{"Per-user bypass", "decision head reads the pooled summary only", "-6.10 HV (p = 3.0e-29); fidelity 0.91 to 0.68, reach 540 to 491 s", []comparison{{"peda-pooled", "prefdt", -6.10, false}}, nil},
	{"Injection site", "omega into the state token only, or into the return token only", "92.17/0.92/464 and 90.56/0.80/552 against the two-site model's 89.91/0.90/695 (HV/fidelity/reach)",
		[]comparison{{"prefdt-state", "prefdt-two-sites", 92.17 - 89.91, true}, {"prefdt-return", "prefdt-two-sites", 90.56 - 89.91, true}, {"prefdt", "prefdt-two-sites", none, false}}, nil},
	{"Vector return-to-go", "scalar return, or no return at all", "scalar +0.08 % HV (p = 0.955) at 0.69, vector +1.10 % (p = 1.1e-4) at 0.91, both against no return at all; under the scalar, consumption reverses: 54.1, 51.4, 45.2 kJ at requests of 70, 80, 90 kJ",
		[]comparison{{"prefdt-scalar", "omega-bc", 0.0008 * 89.23, true}, {"prefdt", "omega-bc", 0.011 * 89.23, true}}, (*tables).scalarBudgets},
	{"Preference token", "removed, with the conditioner's targets supplied directly", "HV 92.02 against 90.28; fidelity 0.805, reach 274 s", []comparison{{"prefdt-no-preference", "prefdt", 92.02 - 90.28, true}}, nil},
	{"Context window", "contexts of 1, 10 and 50 slots crossed with the return token", "+3.64 HV with the token, -3.44 without it; interaction +7.08 (p = 1.9e-24)",
		[]comparison{{"prefdt-context10", "prefdt-context1", none, false}, {"prefdt", "prefdt-context1", none, false}, {"prefdt-context50", "prefdt-context1", 3.64, false},
			{"omega-bc-context10", "omega-bc-context1", none, false}, {"omega-bc", "omega-bc-context1", none, false}, {"omega-bc-context50", "omega-bc-context1", -3.44, false}}, (*tables).contextInteraction},
	{"Teacher and corpus", "distil from per-preference PPO experts instead of the teacher's archive", "-8.42 HV; corpus-learner interaction +4.87 HV",
		[]comparison{{"prefdt", "prefdt-rules-linear", -8.42, false}, {"prefdt", "prefdt-rules", 90.28 - 99.04, true}, {"iql-ppo", "iql-archive", 4.87 - 8.42, true}}, (*tables).corpusInteraction},
	{"Conditioner", "linear preference-to-return fit; ideal-point targets", "the quadratic fit moves fidelity from 0.809 to 0.932; ideal-point targets have 0.98 over a reach of 170 s",
		[]comparison{{"prefdt-rules-linear", "prefdt-rules", 98.65 - 99.04, true}, {"prefdt-ideal", "prefdt", none, false}}, nil},
	{"Corner emphasis", "uniform preference sampling", "fidelity 0.895, under the criterion's 0.90, with it and without the physics features",
		[]comparison{{"published-uniform", "published", none, false}, {"published-uniform-raw", "published-raw", none, false}, {"published-uniform-raw-axis", armName(fullArm, axis), 99.229 - 99.466, true}}, nil},
	{"Physics features", "raw tokenizer features only", "fidelity restored from 0.895 to 0.931; without corner emphasis the same features buy corner depth instead",
		[]comparison{{"published-raw", "published", none, false}, {"published-uniform-raw", "published-uniform", none, false}}, nil},
	{"Setting-axis recalibration", "uniform-omega sweep", "21 of 21 settings distinct and non-dominated against 12 of 21 spoiled; fidelity 1.000 against 0.931; front quality unmoved",
		[]comparison{{fullArm, armName(fullArm, axis), none, false}, {armName(fullArm, whole), armName(fullArm, axis), none, false}}, (*tables).distinctSettings},
}

// linkRows are what the paper retains of the front in percent, its own and its rule's. The paper
// gives the substitution as a difference.
var linkRows = []struct{ name, published, rules string }{
	{lossName(0.05, false), "96.7", ""}, {lossName(0.1, false), "", ""}, {lossName(0.2, false), "", ""}, {lossName(0.4, false), "71.1", "60.8"},
	{displacementName(1), "49.5", ""}, {displacementName(2), farther, ""}, {displacementName(3), farther, ""}, {displacementName(4), farther, ""}, {displacementName(5), farther, ""},
	{displacementName(-1), "as t-1", ""}, {displacementName(-2), "", ""}, {displacementName(-3), "", ""}, {displacementName(-4), "", ""}, {displacementName(-5), "", ""},
}

const farther = "49.0 to 50.0"

// substitutionRows are points that the last report received adds to what is retained.
var substitutionRows = []struct{ rate, published, rules float64 }{{0.05, 1.0, -1.3}, {0.1, 2.1, -2.3}, {0.2, 4.3, -3.7}, {0.4, 8.9, -3.3}}

// costRow is a row of the paper's table of what one new setting costs.
type costRow struct {
	name, interaction string
	coreS, wallS      float64
	n                 int
}

var costRows = []costRow{
	{"PrefDT, one rollout", "100 slots", 0.41, 0.41, 20},
	{"SCA oracle, one convex re-solve", "100 slots", 251.7, 252, 3},
	{"SCA-MPC, one convex re-solve", "100 slots", 340.0, 341, 3},
	{"Per-preference PPO, one training run", "2M steps", 986.7, 988, 3},
	{"Teacher, one re-search", "600,000 slots; the paper 606,000", 133.8, 135, 1},
}
