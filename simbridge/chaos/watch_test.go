package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/inference/physics"
)

// A mission that hangs fails, with the stacks of all goroutines, and holds up no run; nor
// does it one that is interrupted.
func TestHungMission(t *testing.T) {
	program := filepath.Join(t.TempDir(), "leader")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, limit := range map[string]time.Duration{"hung": 100 * time.Millisecond, "interrupted": time.Hour} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			m := &mission{Config: Config{Leader: program}, plan: plan{Speed: 20}, folder: t.TempDir()}
			if err := m.startLeader(); err != nil {
				t.Fatal(err)
			}
			if name == "interrupted" {
				cancel()
			}
			defer cancel()
			over := make(chan *mission, 1)
			go func() { over <- m.watch(ctx, limit, hangForEver) }()
			var got *mission
			select {
			case got = <-over:
			case <-time.After(30 * time.Second):
				t.Fatal("it is waited for")
			}
			select {
			case <-m.leader.Load().Done:
			case <-time.After(30 * time.Second):
				t.Error("its leader still runs")
			}
			stacks, _ := os.ReadFile(filepath.Join(m.folder, "goroutines.txt"))
			if hung := name == "hung"; got.hung != hung || strings.HasPrefix(got.failure, "hung") != hung ||
				strings.Contains(string(stacks), "hangForEver") != hung {
				t.Errorf("hung %v: %q, and %d bytes of stacks", got.hung, got.failure, len(stacks))
			}
			if interrupted := name == "interrupted"; errors.Is(got.interrupted, context.Canceled) != interrupted {
				t.Errorf("interrupted: %v", got.interrupted)
			}
		})
	}
}

func hangForEver(context.Context) error { select {} }

// A leader that continues another's mission is not waited for once the run is interrupted.
func TestElsewhereInterrupted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "leader")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &mission{Config: Config{Leader: program}, plan: plan{Speed: 20, Slots: 40}, folder: t.TempDir()}
	if err := m.startElsewhere(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

// Nor is another leader started then, which nobody would end.
func TestRestartInterrupted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "leader")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &mission{Config: Config{Leader: program}, plan: plan{Speed: 20, Slots: 40}, folder: t.TempDir(), crew: &crew{}}
	m.judge = newJudge(physics.DefaultConstants(), 0, m.plan.Speed)
	m.crew.leaderEnded = m.leaderEnded
	if err := m.startLeader(); err != nil {
		t.Fatal(err)
	}
	if err := m.restartLeader(ctx, 0, nil); !errors.Is(err, context.Canceled) || m.leaderStarts != 1 {
		t.Errorf("%d leaders were started: %v", m.leaderStarts, err)
	}
	m.leader.Load().Kill()
}

// A build is not waited for, either.
func TestBuildInterrupted(t *testing.T) {
	folder := t.TempDir()
	path := os.Getenv("PATH")
	script := "#!/bin/sh\ncase $1 in build) sleep 60 & sleep 60;; esac\nPATH=" + path + " exec go \"$@\"\n"
	if err := os.WriteFile(filepath.Join(folder, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+path)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- BuildDisk(ctx, filepath.Join(folder, "leader"), nil) }()
	time.AfterFunc(time.Second, cancel)
	select {
	case err := <-over:
		if err == nil {
			t.Error("it was built")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it is waited for")
	}
}
