package nn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/offlinetest"
)

// straight fits y = 2x - 1: a task that is quick.
type straight struct {
	layer model.Linear[Param[float32]]
	tape  Tape[float32]
}

func (n *straight) AddGradient(i int, scale float64) ([]float64, error) {
	x := float32(rand.New(rand.NewPCG(uint64(i), 1)).NormFloat64())
	n.tape.Reset()
	y := n.tape.Linear(n.tape.Input([]float32{x}, 1, 1), &n.layer)
	loss, grad := SquaredError(float64(y.Value.Data[0]), float64(2*x-1), 1)
	n.tape.ZeroGrad(y).Data[0] = float32(scale * grad)
	n.tape.Backward()
	return []float64{loss}, nil
}

func straightConfig() Config {
	return Config{Batch: 4, Workers: 2, Seed: 1, Schedule: Schedule{PeakRate: 0.1, FinalFraction: 0.1, WarmUpSteps: 3, Steps: 12,
		Beta1: 0.9, Beta2: 0.98, ClipNorm: 1}}
}

func newStraight(t *testing.T, c Config, subject any, progress any) *Trainer {
	t.Helper()
	layer := model.LinearTensors("w", "b", 1, 1)
	run, err := New(c, Task{Tensors: tensors(&layer), Losses: []string{"loss"}, Subject: subject, Progress: progress,
		Network: func(_ int, w, g *Params[float32]) Network {
			n := &straight{}
			Bind(model.Parameters[Param[float32]](&n.layer), w, g)
			return n
		}})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func tensors(layers ...any) []model.Tensor {
	return model.Tensors(model.Parameters[model.Tensor](layers...))
}

// A run that is interrupted, between steps or in a validation, and resumed leaves the parameters
// and the logs of one that is not; a finished one loses none of its validations, whatever their
// distance, and what was logged beyond the last save is dropped.
func TestInterruptedEqualsWhole(t *testing.T) {
	run := func(dir string, validate, stop int, inside bool) *Trainer {
		steps := 0
		r := newStraight(t, straightConfig(), nil, &steps)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := r.Run(ctx, Files{Dir: dir, Save: 2, Validate: validate, Header: "step,x\n",
			Validation: func(ctx context.Context, log io.Writer) error {
				if steps++; r.Step == stop {
					cancel()
				}
				if inside && ctx.Err() != nil {
					return ctx.Err()
				}
				_, err := fmt.Fprintf(log, "%d,1\n", r.Step)
				return err
			}}, io.Discard)
		if stopped := err != nil; stopped != (stop > 0) || stopped &&
			!strings.Contains(err.Error(), fmt.Sprintf("at step %d of 12", stop)) {
			t.Fatalf("stopping at %d: %v", stop, err)
		}
		return r
	}
	read := func(dir, name string) string {
		raw := offlinetest.Must(os.ReadFile(filepath.Join(dir, name)))(t)
		return string(raw)
	}
	whole, parts := t.TempDir(), t.TempDir()
	want := run(whole, 5, 0, false)
	run(parts, 5, 5, true)
	run(parts, 5, 10, false)
	run(parts, 5, 12, true)
	got := run(parts, 5, 0, false)
	if got.Step != 12 || !slices.Equal(got.Params.Data, want.Params.Data) {
		t.Error("in parts it ends with other parameters")
	}
	log := read(whole, "log.csv")
	for _, validate := range []int{5, 500, 0} {
		run(whole, validate, 0, false)
		if read(whole, "validation.csv") != "step,x\n5,1\n10,1\n12,1\n" || read(parts, "validation.csv") != "step,x\n5,1\n10,1\n12,1\n" ||
			read(whole, "log.csv") != log {
			t.Errorf("resumed with a validation every %d steps, the logs are\n%s\n%s", validate, read(whole, "validation.csv"),
				read(whole, "log.csv"))
		}
	}
	if strings.Count(log, "\n") != 13 || !strings.HasPrefix(log, "step,rate,norm,loss,flights_per_s\n0,") {
		t.Errorf("the log is %s", log)
	}
	// beyond the last save, and one cut short
	offlinetest.NoError(t, os.WriteFile(filepath.Join(whole, "log.csv"), []byte(log+"12,0,0,0,0\n13,0"), 0o644))
	if run(whole, 5, 0, false); read(whole, "log.csv") != log {
		t.Errorf("steps beyond the last save stay: %s", read(whole, "log.csv"))
	}
}

// A state holds what it must, and is refused where the run is another or it is damaged.
func TestState(t *testing.T) {
	path, seen := filepath.Join(t.TempDir(), "state"), 7
	run := newStraight(t, straightConfig(), "a subject", &seen)
	run.Params.Data[1] = 3
	offlinetest.NoError(t, run.Save(path))
	var head State[Config, string, int]
	p, err := Read(path, &head, func() ([]model.Tensor, error) { return run.Params.Tensors, nil })
	if err != nil || !slices.Equal(p.Data, run.Params.Data) || head.Config != run.Config || head.Subject != "a subject" ||
		head.Progress != 7 {
		t.Errorf("read %+v, %v, %v", head, p, err)
	}
	other := straightConfig()
	other.Seed++
	for name, r := range map[string]*Trainer{"seed": newStraight(t, other, "a subject", &seen),
		"subject": newStraight(t, straightConfig(), "another", &seen)} {
		if err := r.Load(path); err == nil || !strings.Contains(err.Error(), "it was trained with") {
			t.Errorf("a state of another %s: %v", name, err)
		}
	}
	run.Params.Data[1] = float32(math.NaN())
	offlinetest.NoError(t, run.Save(path))
	if err := run.Load(path); err == nil || !strings.Contains(err.Error(), "is damaged (number 1 is NaN)") {
		t.Errorf("a parameter that is no number: %v", err)
	}
	if err := run.Load(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no state: %v", err)
	}
	offlinetest.NoError(t, os.WriteFile(path, []byte("something else entirely"), 0o644))
	if err := run.Load(path); err == nil || !strings.Contains(err.Error(), "it starts with") {
		t.Errorf("another file: %v", err)
	}
}

// What a pass leaves in the arena does not reach the next one.
func TestArenaIsNotRead(t *testing.T) {
	a := model.Arch{Width: 16, PairWidth: 8, Layers: 3, Heads: 2, Context: 3}
	blocks := a.Layout().Blocks
	list := tensors(&blocks)
	w := NewParams[float32](list)
	w.Init(1)
	r := rand.New(rand.NewPCG(5, 6))
	rows := make([]float32, 3*30*a.Width)
	for i := range rows {
		rows[i] = float32(r.NormFloat64())
	}
	weights, tape := make([]model.Block[Param[float32]], a.Layers), Tape[float32]{}
	var first []float32
	for range 2 {
		g := NewParams[float32](list)
		Bind(model.Parameters[Param[float32]](&weights), w, g)
		tape.Reset()
		y := tape.Transformer(a, weights, tape.Input(rows, 90, a.Width), []int{20, 10}, 2)
		for i := range tape.ZeroGrad(y).Data {
			y.Grad.Data[i] = 1
		}
		tape.Backward()
		if first == nil {
			first = g.Data
		} else if !slices.Equal(first, g.Data) || kernel.Dot(first, first) == 0 {
			t.Error("the gradient depends on what the arena held")
		}
		for _, c := range tape.arena.chunks {
			for i := range c {
				c[i] = float32(math.NaN())
			}
		}
	}
}
