package leader

import (
	"log/slog"
	"testing"

	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// How long a result may say that it took hangs on its task; what is not
// believed is counted.
func TestHowLongAResultMayTake(t *testing.T) {
	topics, err := telemetry.NewTopics("test")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		task        physics.Task
		localS      float64
		completionS float64
		believed    bool
	}{
		{"short", physics.Task{DeadlineS: 1}, 1, 0.5, true},
		{"a minute", physics.Task{DeadlineS: 1}, 1, 60, true},
		{"more than a minute", physics.Task{DeadlineS: 1}, 1, 61, false},
		{"for a late deadline", physics.Task{DeadlineS: 90}, 1, 170, true},
		{"beyond twice a late deadline", physics.Task{DeadlineS: 90}, 1, 181, false},
		{"as slow as the user itself", physics.Task{DeadlineS: 1}, 200, 390, true},
		{"slower still", physics.Task{DeadlineS: 1}, 200, 401, false},
	} {
		l := &Leader{
			Physics: physics.Standard(), broker: &broker{topics: topics},
			books: map[int]*book{5: {entries: map[string]entry{"u": {task: c.task, localS: c.localS, delayS: 3}}}},
		}
		l.broker.rejects.Log = slog.New(slog.DiscardHandler)
		l.correct("u", &telemetry.Result{Slot: 5, CompletionS: c.completionS, By: telemetry.ByDecision})
		if got := l.books[5].entries["u"].final; got != c.believed {
			t.Errorf("%s: %v s believed: %v", c.name, c.completionS, got)
		}
		if n := l.broker.rejects.Counts()["result: too long"]; (n == 1) == c.believed {
			t.Errorf("%s: %d counted as too long", c.name, n)
		}
	}
}

// A result of a decision that was never made moves nothing and is counted.
func TestResultOfNoDecision(t *testing.T) {
	topics, err := telemetry.NewTopics("test")
	if err != nil {
		t.Fatal(err)
	}
	l := &Leader{Physics: physics.Standard(), broker: &broker{topics: topics}, books: map[int]*book{5: {entries: map[string]entry{}}}}
	l.broker.rejects.Log = slog.New(slog.DiscardHandler)
	b := l.books[5]
	if l.correct("u", &telemetry.Result{Slot: 5, CompletionS: 0.2, By: telemetry.ByDecision}); b.delayS != 0 || l.broker.rejects.Counts()["result: by no decision"] != 1 {
		t.Errorf("delay %v s, counted %v", b.delayS, l.broker.rejects.Counts())
	}
	if l.correct("u", &telemetry.Result{Slot: 5, CompletionS: 0.2, By: telemetry.ByOffer}); b.delayS != 0.2 {
		t.Errorf("who took the offer unheard counts for %v s", b.delayS)
	}
}
