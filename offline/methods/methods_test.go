package methods

import (
	"os"
	"path/filepath"
	"testing"

	"prefdt/inference/goal"
	"prefdt/offline/offlinetest"
	"prefdt/offline/rollout"
)

// request asks for a setting: a preference, or a budget in joules.
func (m *Method) request(setting float64) rollout.Request {
	if m.BudgetsJ != nil {
		return rollout.Request{Mode: goal.Target, BudgetJ: setting}
	}
	return rollout.Request{Mode: goal.Preference, Omega: setting}
}

// Every method of the list is trained, on a budget that teaches nothing, and flies at its
// settings; what it spends is stated.
func TestEveryMethod(t *testing.T) {
	if testing.Short() {
		t.Skip("trains all of them")
	}
	r := toyRun(t, 1)
	r.World.Slots = 4
	r.PPO.Preferences, r.PPO.Steps, r.PPO.Episodes, r.PPO.Width, r.PPO.UserWidth = 5, 100, 2, 16, 8
	r.CMDP.PPO = r.PPO
	r.IQL.Width, r.IQL.UserWidth = 16, 8
	r.IQL.Corpus.Flights, r.PEDA.Corpus.Flights = 10, 10
	r.PGMORL.PPO = r.CMDP.PPO
	offlinetest.NoError(t, r.Config.Check())
	r.PPODir = t.TempDir()
	names := map[string]bool{}
	var archive []byte // searched once
	for _, m := range Methods(&r.Config) {
		t.Run(m.Name, func(t *testing.T) {
			own := *r
			own.Dir = t.TempDir()
			path := filepath.Join(own.Dir, "archive.json")
			if archive != nil {
				offlinetest.NoError(t, os.WriteFile(path, archive, 0o644))
			}
			newPolicy := offlinetest.Must(m.New(t.Context(), &own))(t)
			if found, err := os.ReadFile(path); err == nil {
				archive = found
			}
			at := []float64{0, 1}
			if m.BudgetsJ != nil {
				at = m.BudgetsJ(&own.Config)
			}
			if names[m.Name] || m.Description == "" || (m.Budget == nil) == (m.Spends == nil) {
				t.Errorf("%+v", m)
			}
			if m.Budget != nil {
				if b := m.Budget(&own); (b.EnvironmentSteps > 0) == (b.Transitions+b.Tokens > 0) {
					t.Errorf("it spends %+v, want either steps or data", b)
				}
			}
			f := offlinetest.Must(rollout.NewWithPolicy(newPolicy(), own.GoalConstants(), own.World, rollout.ReportLink{}))(t)
			for _, setting := range at {
				if x := f.Fly(100_000, m.request(setting)); !(x.DelayS > 0) || !(x.EnergyJ > 0) {
					t.Errorf("at %v: %+v", setting, x)
				}
			}
			names[m.Name] = true
		})
	}
}
