package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"prefdt/inference/model"
	"prefdt/offline/export"
	"prefdt/offline/ort"
)

// PaperArch is the size of the paper's network.
var PaperArch = model.Arch{Width: 256, PairWidth: 64, Layers: 3, Heads: 4, Context: 20}

// Step is one step of the network in the middle of a mission, its cache full,
// with two aircraft and six users, against ONNX Runtime on one thread. The two
// take turns, and both are warm. A call of ONNX Runtime through node costs time
// outside the graph; that time is measured on a graph with the same inputs and
// outputs that does nothing, and subtracted.
type Step struct {
	Parameters int     `json:"parameters"`
	P50MS      float64 `json:"p50_ms"`
	P95MS      float64 `json:"p95_ms"`
	P99MS      float64 `json:"p99_ms"`
	// WeightsGBPerS is the weights' bytes over the median: each is read once.
	WeightsGBPerS float64 `json:"weights_gb_per_s"`

	ORTP50MS      *float64 `json:"ort_p50_ms"` // less the call
	ORTP95MS      *float64 `json:"ort_p95_ms"`
	ORTP99MS      *float64 `json:"ort_p99_ms"`
	ORTRawMS      *float64 `json:"ort_raw_p50_ms"`        // with the call
	ORTCallMS     *float64 `json:"ort_call_p50_ms"`       // the call alone, with the same inputs and outputs
	ORTSmallMS    *float64 `json:"ort_small_call_p50_ms"` // the call alone, with one small input and output
	ORTWindowMS   *float64 `json:"ort_window_p50_ms"`     // the paper's window of Context slots, less its call
	Ratio         *float64 `json:"ratio"`                 // p50_ms / ort_p50_ms
	WindowRatio   *float64 `json:"window_ratio"`          // p50_ms / ort_window_p50_ms
	ORTDifference *float64 `json:"ort_difference"`        // largest between the outputs
}

const (
	benchAircraft, benchUsers = 2, 6
	stepRounds, stepBatch     = 40, 50 // batches of steps in turn
	warmUpSteps               = 5      // steps at the start of each batch that do not count
)

// measureStep times net against the graph in a file of dir, if there is an
// ONNX Runtime.
func measureStep(net *model.Net, graph []byte, r *ort.Runtime, dir string) (*Step, error) {
	a := net.Arch
	random := rand.New(rand.NewPCG(1, 2))
	cache := net.NewCache()
	var out model.Outputs
	inputs := make([]*model.Inputs, 2*a.Context)
	for i := range inputs {
		inputs[i] = randomInputs(random, benchAircraft, benchUsers)
		net.Step(inputs[i], cache, &out)
	}
	in := inputs[len(inputs)-1]
	s := &Step{Parameters: a.Parameters()}
	bytes := 0
	for _, t := range a.Tensors() {
		if t.IsMatrix() {
			bytes += 2 * t.Size()
		}
	}

	var peers []*ortGraph
	if r != nil {
		graphs, difference, err := prepareORTGraphs(r, dir, a, graph, inputs, &out)
		if err != nil {
			return nil, err
		}
		peers, s.ORTDifference = graphs, &difference
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer pin()()
	var timesMS []float64
	for range stepRounds {
		runtime.GC() // of the memory of the last responses
		for i := range stepBatch + warmUpSteps {
			start := time.Now()
			net.Step(in, cache, &out)
			if i >= warmUpSteps {
				timesMS = append(timesMS, time.Since(start).Seconds()*1e3)
			}
		}
		for _, p := range peers {
			if err := p.runBatch(r); err != nil {
				return nil, err
			}
		}
	}
	s.P50MS, s.P95MS, s.P99MS = quantile(timesMS, 0.5), quantile(timesMS, 0.95), quantile(timesMS, 0.99)
	s.WeightsGBPerS = float64(bytes) / s.P50MS / 1e6
	if r == nil {
		return s, nil
	}
	step, call, small, window, windowCall := peers[0].timesMS, peers[1].timesMS, peers[2].timesMS, peers[3].timesMS, peers[4].timesMS
	overhead := quantile(call, 0.5)
	s.ORTRawMS, s.ORTCallMS, s.ORTSmallMS = new(quantile(step, 0.5)), &overhead, new(quantile(small, 0.5))
	s.ORTP50MS, s.ORTP95MS, s.ORTP99MS = new(*s.ORTRawMS-overhead), new(quantile(step, 0.95)-overhead), new(quantile(step, 0.99)-overhead)
	s.ORTWindowMS = new(quantile(window, 0.5) - quantile(windowCall, 0.5))
	s.Ratio, s.WindowRatio = new(s.P50MS / *s.ORTP50MS), new(s.P50MS / *s.ORTWindowMS)
	return s, nil
}

// ortGraph is one graph in ONNX Runtime with its inputs, and the times of its runs.
type ortGraph struct {
	request ort.Request
	timesMS []float64
}

func (p *ortGraph) runBatch(r *ort.Runtime) error {
	p.request.Feeds, p.request.Repeat = nil, stepBatch+warmUpSteps
	response, err := r.Run(&p.request)
	if err != nil {
		return err
	}
	p.timesMS = append(p.timesMS, response.TimesMS[warmUpSteps:]...)
	return nil
}

// prepareORTGraphs loads the step, its call, a small call, the window and its call, in this order, runs each, and
// returns by how much the outputs of the step and of the window differ from the network's at most.
func prepareORTGraphs(r *ort.Runtime, dir string, a model.Arch, graph []byte, inputs []*model.Inputs, out *model.Outputs) (
	peers []*ortGraph, difference float64, err error) {
	parameters := randomParameters(a)
	window := windowGraph(a, benchAircraft, benchUsers)
	small := &model.Graph{Inputs: a.Graph().Inputs[3:4], Outputs: []model.Value{{Name: "out"}}}
	windowFeeds, windowOut, err := flyWindow(a, parameters, inputs[:a.Context])
	if err != nil {
		return nil, 0, err
	}
	var mission []map[string]ort.Tensor
	for slot, in := range inputs {
		mission = append(mission, ort.Feeds(a, in, slot, 0))
	}
	first, cache := mission[0], ort.CarryCache(a) // with a cache of zeros
	for _, f := range []struct {
		name  string
		graph []byte
		carry map[string]string
		want  *model.Outputs          // of the last run; nil: it computes nothing
		feeds []map[string]ort.Tensor // of runs before those that are timed
	}{
		{"step.onnx", graph, cache, out, mission},
		{"call.onnx", export.EncodeGraph(identityGraph(a.Graph()), nil), cache, nil, mission[:1]},
		{"small.onnx", export.EncodeGraph(identityGraph(small), nil), nil, nil, []map[string]ort.Tensor{{"state": first["state"]}}},
		{"window.onnx", export.EncodeGraph(window, parameters), nil, windowOut, []map[string]ort.Tensor{windowFeeds}},
		{"window_call.onnx", export.EncodeGraph(identityGraph(window), nil), nil, nil, []map[string]ort.Tensor{windowFeeds}},
	} {
		p := &ortGraph{request: ort.Request{Model: filepath.Join(dir, fmt.Sprintf("%d-%s", a.Width, f.name)), Carry: f.carry}}
		if err := os.WriteFile(p.request.Model, f.graph, 0o644); err != nil {
			return nil, 0, err
		}
		var response *ort.Response
		for _, p.request.Feeds = range f.feeds {
			if response, err = r.Run(&p.request); err != nil {
				return nil, 0, err
			}
		}
		if f.want != nil {
			difference = max(difference, maxDifference(f.want, response.Outputs))
		}
		peers = append(peers, p)
	}
	if !(difference < 1e-3) {
		return nil, 0, fmt.Errorf("the network's outputs and ONNX Runtime's differ by %v", difference)
	}
	return peers, difference, nil
}

// flyWindow returns the window's inputs over a mission's first slots, and the network's outputs after as many steps.
func flyWindow(a model.Arch, parameters []float32, inputs []*model.Inputs) (map[string]ort.Tensor, *model.Outputs, error) {
	net, err := model.NewNet(a, parameters)
	if err != nil {
		return nil, nil, err
	}
	cache := net.NewCache()
	var out model.Outputs
	var rows model.Inputs
	for _, in := range inputs {
		net.Step(in, cache, &out)
		rows.Aircraft, rows.Pairs = append(rows.Aircraft, in.Aircraft...), append(rows.Pairs, in.Pairs...)
		rows.State, rows.Return, rows.Action = append(rows.State, in.State...), append(rows.Return, in.Return...), append(rows.Action,
			in.Action...)
	}
	n, m, u := len(inputs), inputs[0].NumAircraft, inputs[0].NumUsers
	return map[string]ort.Tensor{
		"aircraft": {Dims: []int{n * m, model.AircraftFeatures}, Data: rows.Aircraft},
		"pairs":    {Dims: []int{n * m, u, model.PairFeatures}, Data: rows.Pairs},
		"state":    {Dims: []int{n, model.StateFeatures}, Data: rows.State},
		"return":   {Dims: []int{n, model.ReturnFeatures}, Data: rows.Return},
		"action":   {Dims: []int{n, model.ActionFeatures}, Data: rows.Action},
	}, &out, nil
}

func maxDifference(out *model.Outputs, reference map[string]ort.Tensor) (d float64) {
	for _, pair := range [][2][]float32{{out.Move, reference["move"].Data}, {out.Choice, reference["choice"].Data}, {{out.FrontPosition},
		reference["price"].Data}} {
		if len(pair[0]) != len(pair[1]) {
			return math.Inf(1)
		}
		for i, x := range pair[0] {
			d = max(d, math.Abs(float64(x-pair[1][i]))) // a NaN stays
		}
	}
	return d
}

// randomParameters keeps activations of order one through any depth.
func randomParameters(a model.Arch) []float32 {
	r := rand.New(rand.NewPCG(3, 4))
	var p []float32
	for _, t := range a.Tensors() {
		for range t.Size() {
			x := 0.2 * r.NormFloat64()
			switch {
			case t.IsMatrix():
				x *= 5 / math.Sqrt(float64(t.Rows))
			case strings.HasSuffix(t.Name, "g"): // gains of norms
				x++
			}
			p = append(p, float32(x))
		}
	}
	return p
}

func randomInputs(r *rand.Rand, m, u int) *model.Inputs {
	return &model.Inputs{
		NumAircraft: m, NumUsers: u, Aircraft: randomNormal(r, m*model.AircraftFeatures), Pairs: randomNormal(r, m*u*model.PairFeatures),
		State: randomNormal(r, model.StateFeatures), Return: randomNormal(r, model.ReturnFeatures), Action: randomNormal(r,
			model.ActionFeatures),
	}
}

func randomNormal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}
