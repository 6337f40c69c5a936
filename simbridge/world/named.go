package world

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"prefdt/configs"
)

// The field worlds, the unseen ones, and the standard one. Each is the standard world
// with elements that hide what a real field hides; allLocalS is the mean delay of its episodes of
// seeds 0 to 999, penalties included, in which every user computes its tasks itself at the speed
// its CPU really has; 0 where references do not count in it. The unseen worlds are outside of
// what training draws: what was learned is tried in them. Those without a reference have one thing
// that the policy's corpus never has: users in places of their own, arrivals with a memory, users that
// move, a path loss of another exponent.
var named = []struct {
	name      string
	compose   []func(*Config)
	allLocalS float64
	unseen    bool
}{
	{"standard", nil, 0, false},
	{"gusts", []func(*Config){windy}, 715.16, false},
	{"canyon", []func(*Config){amongHighRises}, 715.16, false},
	{"phones", []func(*Config){withPhones, withContention}, 794.64, false},
	{"crowd", []func(*Config){inGroups, walking, withContention}, 1053.16, false},
	{"field", inTheField(), 794.64, false},
	{"wind", []func(*Config){windy, withoutPayload}, 715.16, false},
	{"field-10deg", inTheField(correlated(10)), 794.64, true},
	{"field-90deg", inTheField(correlated(90)), 794.64, true},
	{"field-storm", inTheField(storm), 794.64, true},
	{"field-dense", inTheField(denseUrban), 794.64, true},
	{"field-short", inTheField(spells(15, 22.5)), 790.50, true},
	{"field-long", inTheField(spells(60, 90)), 789.99, true},
	{"clusters", []func(*Config){inClusters}, 0, true},
	{"bursts", []func(*Config){func(c *Config) { c.ActiveMemory = 0.9 }}, 0, true},
	{"traffic", []func(*Config){func(c *Config) { c.Walking = Walking{SpeedSDMPS: 8, Memory: 0.98} }}, 0, true},
	{"foliage", []func(*Config){func(c *Config) { c.PathLossExponent = 2.3 }}, 0, true},
	{"city", inTheField(storm, denseUrban, correlated(60), spells(60, 90), large), 1582.39, true},
}

// inTheField returns all elements of field, and those that change it.
func inTheField(more ...func(*Config)) []func(*Config) {
	return append([]func(*Config){windy, amongHighRises, withPhones, walking}, more...)
}

func correlated(deg float64) func(*Config) {
	return func(c *Config) { c.SkylineDeg, c.ShadowingDeg = deg, deg }
}

func storm(c *Config) { c.Wind.MeanMinMPS, c.Wind.MeanMaxMPS, c.Wind.TurbulenceMPS = 8, 14, 2 }

// denseUrban has the constants of Al-Hourani et al. for a dense urban area.
func denseUrban(c *Config) {
	r := &c.Physics.Channel
	r.UrbanA, r.UrbanB, r.LoS.ExcessDB, r.NLoS.ExcessDB = 12.08, 0.11, 1.6, 23
}

func spells(onS, offS float64) func(*Config) {
	return func(c *Config) { c.Throttling.MeanOnS, c.Throttling.MeanOffS = onS, offS }
}

func large(c *Config) { c.Physics.AreaSideM, c.Slots = 1500, 200 }

func windy(c *Config) {
	c.Wind = Wind{MeanMinMPS: 3, MeanMaxMPS: 10, TurnRad: 0.01, TurbulenceMPS: 1, TurbulenceMemory: 0.96}
	c.Payload = Payload{FactorMin: 0.8, FactorMax: 1.3}
	c.Gust = 0.05
}

func withoutPayload(c *Config) { c.Payload = Payload{} }

// amongHighRises has the constants of Al-Hourani et al. for an urban area of high rises.
func amongHighRises(c *Config) {
	r := &c.Physics.Channel
	r.UrbanA, r.UrbanB, r.LoS.ExcessDB, r.NLoS.ExcessDB = 27.23, 0.08, 2.3, 34
	c.SkylineDeg, c.ShadowingDeg, c.Sounding = 30, 30, true
	withContention(c)
}

func withContention(c *Config) { c.Physics.Contention = true }

func withPhones(c *Config) {
	c.UserCPUMinHz, c.UserCPUMaxHz = 0.7e9, 2.8e9
	c.Throttling = Throttling{Factor: 0.45, MeanOnS: 30, MeanOffS: 45}
}

func walking(c *Config) { c.Walking = Walking{SpeedSDMPS: 1.5, Memory: 0.85} }

func inGroups(c *Config) {
	c.Physics.AreaSideM, c.Slots = 2000, 200
	c.Groups = Groups{
		Count: 3, SpreadM: 80, SpeedMPS: 8, SpeedSDMPS: 4, Memory: 0.95,
		HotTaskProbability: 0.95, OtherTaskProbability: 0.12, ChangeProbability: 1.0 / 40,
	}
}

// inClusters puts the users about three places, as many active in the mean as everywhere else.
func inClusters(c *Config) {
	c.Groups = Groups{Count: 3, SpreadM: 60, HotTaskProbability: 0.54, OtherTaskProbability: 0.54}
}

// Names returns the names that Named knows.
func Names() (names []string) {
	for _, w := range named {
		names = append(names, w.name)
	}
	return names
}

// FieldNames returns the names of the field worlds.
func FieldNames() (names []string) {
	for _, w := range named {
		if w.allLocalS > 0 && !w.unseen {
			names = append(names, w.name)
		}
	}
	return names
}

// UnseenNames returns the names of the field worlds that no training draws.
func UnseenNames() (names []string) { return unseen(true) }

// OutsideNames returns the names of the worlds without hidden state that no training draws.
func OutsideNames() (names []string) { return unseen(false) }

func unseen(field bool) (names []string) {
	for _, w := range named {
		if w.unseen && w.allLocalS > 0 == field {
			names = append(names, w.name)
		}
	}
	return names
}

// Named returns the world of a name.
func Named(name string) (Config, error) {
	c := Standard()
	if !c.compose(name) {
		return c, fmt.Errorf("world %q is not known, want one of %s", name, strings.Join(Names(), ", "))
	}
	return c, nil
}

// compose adds the elements of the world of a name, if there is one.
func (c *Config) compose(name string) (known bool) {
	for _, w := range named {
		if w.name == name {
			for _, add := range w.compose {
				add(c)
			}
			return true
		}
	}
	return false
}

// Load adds to a world the elements of one that is named, or else puts the keys of a
// file over it.
func (c *Config) Load(nameOrFile string) error {
	if c.compose(nameOrFile) {
		return nil
	}
	err := configs.Load(nameOrFile, c)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; nor is it a world's name, want one of %s", err, strings.Join(Names(), ", "))
	}
	return err
}

// Reference is what the hypervolume's reference points of a field world are multiples of.
type Reference struct {
	AllLocalS float64 // mean delay of an episode with all tasks computed locally
	CalmJ     float64 // CalmFloorJ
}

// FieldReference returns the reference of the field world that c is, of any fleet and
// with anything that one mission's events change; false: c is none.
func (c *Config) FieldReference() (Reference, bool) {
	x := *c
	s := Standard()
	x.Aircraft, x.Shock, x.SecondShock, x.EdgeFactor, x.DenseStart, x.AircraftLosses = s.Aircraft, s.Shock, s.SecondShock, s.EdgeFactor,
		s.DenseStart, nil
	values := flatten(x)
	for i, field := range fieldValues() {
		if field != nil && len(differences(values, field)) == 0 {
			return Reference{named[i].allLocalS, c.CalmFloorJ()}, true
		}
	}
	return Reference{}, false
}

// fieldValues are the values of each named world that has a reference, nil for the others: an evaluation asks for
// the references of each of its fronts.
var fieldValues = sync.OnceValue(func() (list []map[string]string) {
	for _, w := range named {
		var values map[string]string
		if field, _ := Named(w.name); w.allLocalS > 0 {
			values = flatten(field)
		}
		list = append(list, values)
	}
	return list
})
