package paper

import (
	"fmt"
	"slices"

	"prefdt/inference/paperform"
	"prefdt/offline/methods"
)

// maker is how a policy is made.
type maker struct {
	Name        string `json:"name"`
	description string

	Method string  `json:"method,omitempty"` // of package methods
	Scale  float64 `json:"scale,omitempty"`  // of what that is declared to spend; 0: all of it
	Form   *form   `json:"form,omitempty"`   // PrefDT as published
	Rules  *rules  `json:"rules,omitempty"`
	// Scheduler is one that neither learns nor is searched: "random" or "even".
	Scheduler string `json:"scheduler,omitempty"`

	few      bool          // flown on FewSeeds episodes, as many as the paper has
	ours     bool          // "our instantiation": the text leaves settings open, so that it is run at half and double its budget as well
	optional bool          // measured where it is asked for
	tests    []measurement // beside its front
}

// form is a variation of PrefDT as published.
type form struct {
	Full        bool `json:"full,omitempty"`         // trained longest, not with the declared budget
	Uniform     bool `json:"uniform,omitempty"`      // preferences without corner emphasis
	RawFeatures bool `json:"raw_features,omitempty"` // without those of eq. (physfeat)
	Aircraft    int  `json:"aircraft,omitempty"`     // 0: 2
}

// rules are the teacher's, searched.
type rules struct {
	Population int `json:"population"`
	Budgets    int `json:"budgets"` // of evaluations, 1 or 2
	Aircraft   int `json:"aircraft,omitempty"`
}

// userFeatures returns a form's.
func (f *form) userFeatures(all []string) []string {
	if !f.RawFeatures {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(paperform.PhysicsFeatures, name) })
}

// makers returns all, in the order in which they are measured.
func (c *Config) makers() []maker {
	full := maker{Name: fullArm, description: "PrefDT as published, trained longest", Form: &form{Full: true}, tests: []measurement{axis, whole, dense, budgets, replan, link, shifts}}
	declared := maker{Name: declaredArm, description: "PrefDT as published, at the declared budget", Form: &form{}, ours: true, tests: []measurement{axis, budgets, replan}}
	if c.longestArm() == declaredArm {
		declared.tests = full.tests
	}
	list := []maker{
		{Name: "even", description: "the reference even pacer, by which budgets are judged", Scheduler: "even"},
		{Name: "random", description: "every decision at random", Scheduler: "random", few: true},
		{Name: "rules-50", description: "the teacher: NSGA-II over the ten-gene rule, population 50", Rules: &rules{Population: 50, Budgets: 1}, tests: []measurement{budgets, replan, link, shifts, arrivals}},
		{Name: "rules-21", description: "the same, population 21", Rules: &rules{Population: 21, Budgets: 1}},
		{Name: "rules-101", description: "the same, population 101", Rules: &rules{Population: 101, Budgets: 1}},
		{Name: "rules-101-twice", description: "the same, population 101 with twice the evaluations", Rules: &rules{Population: 101, Budgets: 2}},
		{Name: "rules-50-fleet4", description: "the teacher of 4 aircraft", Rules: &rules{Population: 50, Budgets: 1, Aircraft: 4}},
		{Name: "rules-50-fleet8", description: "the teacher of 8 aircraft", Rules: &rules{Population: 50, Budgets: 1, Aircraft: 8}},

		declared,
		{Name: "published-uniform", description: "the same without corner emphasis", Form: &form{Uniform: true}, tests: []measurement{budgets}},
		{Name: "published-raw", description: "the same without the physics features", Form: &form{RawFeatures: true}, tests: []measurement{budgets}},
		{Name: "published-uniform-raw", description: "the same without corner emphasis and physics features", Form: &form{Uniform: true, RawFeatures: true}, tests: []measurement{axis, budgets}},
		{Name: "published-fleet4", description: "the same retrained for 4 aircraft", Form: &form{Aircraft: 4}},
		{Name: "published-fleet8", description: "the same retrained for 8 aircraft", Form: &form{Aircraft: 8}},
	}
	for _, m := range methods.Methods(&c.Methods) {
		if m.Paper == nil {
			continue
		}
		x := maker{Name: m.Name, Method: m.Name, few: m.Paper.Few, ours: m.Paper.Ours, optional: m.Paper.Optional}
		for _, name := range m.Paper.Tests {
			x.tests = append(x.tests, measurement(name))
		}
		list = append(list, x)
	}
	if c.longestArm() == fullArm { // last, as it takes the longest
		list = append(list, full)
	}
	for _, m := range slices.Clone(list) {
		if !m.ours {
			continue
		}
		list = append(list,
			maker{Name: m.Name + "-half", Method: m.Method, Form: m.Form, Scale: 0.5, few: m.few, optional: true},
			maker{Name: m.Name + "-double", Method: m.Method, Form: m.Form, Scale: 2, few: m.few, optional: true})
	}
	for i := range list {
		m := &list[i]
		switch {
		case m.description != "":
		case m.Method != "":
			m.description = methods.Find(&c.Methods, m.Method).Description
		default:
			m.description = "PrefDT as published"
		}
		if m.Scale != 0 {
			m.description += fmt.Sprintf(", at %v of its declared budget", m.Scale)
		}
	}
	return list
}
