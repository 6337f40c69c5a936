// Package ort runs exported graphs in ONNX Runtime, the reference implementation
// of what is exported and the peer that the step is timed against. Inputs: a
// graph's file and tensors. Outputs: its outputs and how long it took. The tests
// of export and "offline bench" call it. It is never a part of the product: it
// needs node and a folder with onnxruntime-node, which
// `npm install --ignore-scripts onnxruntime-node@1.30.0` makes.
package ort

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"prefdt/inference/model"
)

// Folder is where onnxruntime-node is installed, or empty.
func Folder() string { return os.Getenv("PREFDT_ORT") }

//go:embed ort.js
var script string

// Runtime is a node process that runs graphs on one thread.
type Runtime struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// Tensor is a float32 tensor.
type Tensor struct {
	Dims []int     `json:"dims"`
	Data []float32 `json:"data"`
}

// Request is a request for runs of a model. Feeds stay until replaced; outputs
// named in Carry become those inputs of the next run and are not returned.
type Request struct {
	Model  string            `json:"model"` // path of the file
	Feeds  map[string]Tensor `json:"feeds"`
	Carry  map[string]string `json:"carry"`
	Repeat int               `json:"repeat"` // 0 is once
}

// Response holds the outputs and how long each run took.
type Response struct {
	Outputs map[string]Tensor `json:"outputs"`
	TimesMS []float64         `json:"ms"`
}

// Start starts ONNX Runtime from the folder it is installed in.
func Start(folder string) (*Runtime, error) {
	r := &Runtime{process: exec.Command("node", "-e", script, folder)}
	r.process.Stderr = os.Stderr
	var err error
	if r.in, err = r.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	if err := r.process.Start(); err != nil {
		return nil, fmt.Errorf("start ONNX Runtime: %w", err)
	}
	return r, nil
}

// Close ends the process and waits for it.
func (r *Runtime) Close() error {
	r.in.Close()
	return r.process.Wait()
}

// Run sends one request and returns its response.
func (r *Runtime) Run(request *Request) (*Response, error) {
	if err := json.NewEncoder(r.in).Encode(request); err != nil {
		return nil, fmt.Errorf("send a request to ONNX Runtime: %w", err)
	}
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("ONNX Runtime ended: %w", err)
	}
	response := &Response{}
	return response, json.Unmarshal(line, response)
}

// Feeds lays a step's inputs out for the exported graph, with the given number
// of padded rows of users after the real ones. Slot 0 also empties the cache.
func Feeds(a model.Arch, in *model.Inputs, slot, padded int) map[string]Tensor {
	mask := append(slices.Repeat([]float32{1}, in.NumUsers), make([]float32, padded)...)
	var pairs []float32
	for m := range in.NumAircraft {
		row := in.NumUsers * model.PairFeatures
		pairs = append(pairs, in.Pairs[m*row:(m+1)*row]...)
		pairs = append(pairs, slices.Repeat([]float32{3}, padded*model.PairFeatures)...) // any value: padding must not change an output
	}
	past := make([]float32, a.PastTokens())
	for i := range min(slot*model.TokensPerSlot, len(past)) {
		past[len(past)-1-i] = 1
	}
	f := map[string]Tensor{
		"aircraft":  {[]int{in.NumAircraft, model.AircraftFeatures}, in.Aircraft},
		"pairs":     {[]int{in.NumAircraft, len(mask), model.PairFeatures}, pairs},
		"user_mask": {[]int{len(mask)}, mask},
		"state":     {[]int{1, model.StateFeatures}, in.State},
		"return":    {[]int{1, model.ReturnFeatures}, in.Return},
		"action":    {[]int{1, model.ActionFeatures}, in.Action},
		"past_mask": {[]int{len(past)}, past},
	}
	if slot == 0 {
		dims := []int{a.Heads, a.PastTokens(), a.Width / a.Heads}
		for l := range a.Layers {
			zeros := make([]float32, a.PastTokens()*a.Width)
			f[model.PastKey(l)], f[model.PastValue(l)] = Tensor{dims, zeros}, Tensor{dims, zeros}
		}
	}
	return f
}

// CarryCache feeds each present key and value back as the next step's past.
func CarryCache(a model.Arch) map[string]string {
	c := map[string]string{}
	for l := range a.Layers {
		c[model.PresentKey(l)], c[model.PresentValue(l)] = model.PastKey(l), model.PastValue(l)
	}
	return c
}
