// Package metrics serves /metrics for Prometheus and /healthz, on the loopback
// interface.
//
// Inputs: gauges, counters and histograms that the caller adds to a Page. Outputs: the
// text exposition format, over HTTP. Called by package monitor; requests are answered
// on goroutines of their own and cannot delay the loop.
//
// The exposition format is written here to keep the leader's binary small
// (docs/decisions.md).
package metrics

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Page is one answer in Prometheus' text format, version 0.0.4. All samples of
// one metric are added one after another.
type Page struct {
	b    bytes.Buffer
	last string
}

// Gauge adds a value that goes up and down. NaN stands for unknown. Labels are
// names and values in turn.
func (p *Page) Gauge(name, help string, value float64, labels ...string) {
	p.writeHeader(name, help, "gauge")
	p.writeSample(name, value, labels...)
}

// Counter adds a value that only rises.
func (p *Page) Counter(name, help string, value float64, labels ...string) {
	p.writeHeader(name, help, "counter")
	p.writeSample(name, value, labels...)
}

// Counters adds a counter for each key, under one label, in order.
func (p *Page) Counters(name, help, label string, counts map[string]uint64) {
	p.writeHeader(name, help, "counter")
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		p.writeSample(name, float64(counts[k]), label, k)
	}
}

// Histogram adds a distribution.
func (p *Page) Histogram(name, help string, h *Histogram) {
	p.writeHeader(name, help, "histogram")
	below := uint64(0)
	for i, bound := range h.Bounds {
		if i < len(h.counts) {
			below += h.counts[i]
		}
		p.writeSample(name+"_bucket", float64(below), "le", formatFloat(bound))
	}
	p.writeSample(name+"_bucket", float64(h.n), "le", "+Inf")
	p.writeSample(name+"_sum", h.sum)
	p.writeSample(name+"_count", float64(h.n))
}

func (p *Page) writeHeader(name, help, kind string) {
	if p.last == name {
		return
	}
	p.last = name
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
	p.b.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (p *Page) writeSample(name string, value float64, labels ...string) {
	p.b.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		p.b.WriteByte("{,"[min(i, 1)])
		p.b.WriteString(labels[i] + `="` + escape.Replace(strings.ToValidUTF8(labels[i+1], "?")) + `"`)
	}
	if len(labels) > 1 {
		p.b.WriteByte('}')
	}
	p.b.WriteString(" " + formatFloat(value) + "\n")
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) } // NaN, +Inf and -Inf as Prometheus has them

// Histogram counts values up to each bound. Set Bounds, rising, before the first value.
type Histogram struct {
	Bounds []float64
	counts []uint64
	n      uint64
	sum    float64
}

// Observe counts a value; one that is not finite is left out.
func (h *Histogram) Observe(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	if h.counts == nil {
		h.counts = make([]uint64, len(h.Bounds))
	}
	h.n++
	h.sum += x
	if i, _ := slices.BinarySearch(h.Bounds, x); i < len(h.counts) {
		h.counts[i]++
	}
}
