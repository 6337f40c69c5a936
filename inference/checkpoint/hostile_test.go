package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/token"
	"prefdt/offline/export"
)

var smallArch = model.Arch{Width: 8, PairWidth: 4, Layers: 2, Heads: 2, Context: 3}

// validCheckpoint returns both files of a small checkpoint.
func validCheckpoint(t testing.TB) (manifest, graph []byte) {
	r := rand.New(rand.NewPCG(1, 1))
	p := make([]float32, smallArch.Parameters())
	for i := range p {
		p[i] = float32(r.NormFloat64())
	}
	manifest, graph, _, err := export.Encode(checkpoint.Manifest{
		Arch: smallArch, Statistics: statistics(), Physics: physics.DefaultConstants(),
		GoalConstants: goal.Constants{EtaDelayS: 633, EtaEnergyJ: 11.6e3, Slots: 100, AircraftCount: 2,
			Conditioner: goal.Conditioner{Omegas: []float64{0, 1}, DelayS: []float64{90, 700}, EnergyJ: []float64{39e3, 27e3}},
			SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}}},
		PriceCurve: checkpoint.PriceCurve{FrontPositions: []float64{0, 1}, PricesSPerJ: []float64{0, 2.7}}, OmegaBand: [2]float64{0, 1},
		Training: map[string]float64{"loss": 1},
	}, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return manifest, graph
}

// statistics are those of users with tasks of 1 Mbit and 1 s.
func statistics() token.Statistics {
	s, l := token.IdentityStatistics(), token.Features()
	for _, name := range []string{"bits", "cycles per bit", "deadline", "T_loc"} {
		s.Pair.Mean[slices.Index(l.Pair, name)] = 1
	}
	s.State.Mean[slices.Index(l.State, "users")] = 1
	return s
}

// withGraphHash puts a graph's hash into a manifest, so that what follows the hash
// is tested.
func withGraphHash(manifest, graph []byte) []byte {
	i := bytes.Index(manifest, []byte(`"graph_sha256": "`)) + len(`"graph_sha256": "`)
	return append(append(append([]byte(nil), manifest[:i]...), checkpoint.Hash(graph)...), manifest[i+64:]...)
}

// protoField is a protobuf field, decoded so that a test can edit it.
type protoField struct {
	number, wire int
	value        uint64
	bytes        []byte
}

func parseFields(data []byte) (parts []protoField) {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		data = data[n:]
		p := protoField{number: int(tag >> 3), wire: int(tag & 7)}
		switch p.wire {
		case 0:
			p.value, n = binary.Uvarint(data)
			data = data[n:]
		case 2:
			size, n := binary.Uvarint(data)
			p.bytes, data = data[n:n+int(size)], data[n+int(size):]
		case 5:
			p.value, data = uint64(binary.LittleEndian.Uint32(data)), data[4:]
		}
		parts = append(parts, p)
	}
	return parts
}

func encodeFields(parts []protoField) (data []byte) {
	for _, p := range parts {
		data = binary.AppendUvarint(data, uint64(p.number)<<3|uint64(p.wire))
		switch p.wire {
		case 0:
			data = binary.AppendUvarint(data, p.value)
		case 2:
			data = binary.AppendUvarint(data, uint64(len(p.bytes)))
			data = append(data, p.bytes...)
		case 5:
			data = binary.LittleEndian.AppendUint32(data, uint32(p.value))
		}
	}
	return data
}

// editAt edits the nth field of each number along a path of (number, n).
func editAt(data []byte, edit func(m []protoField) []protoField, path ...int) []byte {
	parts := parseFields(data)
	if len(path) == 0 {
		return encodeFields(edit(parts))
	}
	nth := path[1]
	for i := range parts {
		if parts[i].number == path[0] {
			if nth == 0 {
				parts[i].bytes = editAt(parts[i].bytes, edit, path[2:]...)
			}
			nth--
		}
	}
	return encodeFields(parts)
}

func setVarint(number int, value uint64) func([]protoField) []protoField {
	return func(m []protoField) []protoField {
		for i := range m {
			if m[i].number == number {
				m[i].value = value
				return m
			}
		}
		return append(m, protoField{number: number, value: value})
	}
}

func setBytes(number int, b string) func([]protoField) []protoField {
	return func(m []protoField) []protoField {
		for i := range m {
			if m[i].number == number {
				m[i].bytes = []byte(b)
				return m
			}
		}
		return append(m, protoField{number: number, wire: 2, bytes: []byte(b)})
	}
}

func removeField(number int) func([]protoField) []protoField {
	return func(m []protoField) []protoField {
		for i := range m {
			if m[i].number == number {
				return append(m[:i:i], m[i+1:]...)
			}
		}
		return m
	}
}

func appendField(p protoField) func([]protoField) []protoField {
	return func(m []protoField) []protoField { return append(m, p) }
}

// Paths into a graph. Node 0 casts the first weight; the weight is initializer 0.
var (
	graphPath         = []int{7, 0}
	opsetPath         = []int{8, 0}
	castPath          = []int{7, 0, 1, 0}
	castAttributePath = []int{7, 0, 1, 0, 5, 0}
	weightPath        = []int{7, 0, 5, 0}
	biasPath          = []int{7, 0, 5, 1}
	usersDimPath      = []int{7, 0, 11, 1, 2, 0, 1, 0, 2, 0, 1, 1} // second dimension of the pairs
)

func hostileGraphs() []struct {
	name, want string
	corrupt    func(g []byte) []byte
} {
	at := func(path []int, edit func([]protoField) []protoField) func([]byte) []byte {
		return func(g []byte) []byte { return editAt(g, edit, path...) }
	}
	return []struct {
		name, want string
		corrupt    func(g []byte) []byte
	}{
		{"empty", "ir_version 0", func([]byte) []byte { return nil }},
		{"truncated", "claims", func(g []byte) []byte { return g[:len(g)/2] }},
		{"cut in a tag", "cut short", func(g []byte) []byte { return append(g, 0x80) }},
		{"random bytes", "model:", func([]byte) []byte { return []byte("\x99\x88\x77the quick brown fox") }},
		{"a varint of eleven bytes", "cut short", func([]byte) []byte { return append([]byte{8}, bytes.Repeat([]byte{0xff}, 11)...) }},
		{"a claim of 2 GB", "claims 2147483647 bytes", func([]byte) []byte { return []byte{0x3a, 0xff, 0xff, 0xff, 0xff, 0x07} }},
		{"a claim of 2^64-1 bytes", "claims 18446744073709551615 bytes", func([]byte) []byte {
			return append([]byte{0x3a}, binary.AppendUvarint(nil, math.MaxUint64)...)
		}},
		{"a group", "wire type 3", func([]byte) []byte { return []byte{7<<3 | 3} }},
		{"field zero", "field 0", func([]byte) []byte { return []byte{0} }},
		{"no graph", "", at(nil, removeField(7))},
		{"two graphs", "more than 1 of graph", at(nil, appendField(protoField{number: 7, wire: 2}))},
		{"functions", "functions is not allowed", at(nil, appendField(protoField{number: 25, wire: 2}))},
		{"metadata", "field 14", at(nil, appendField(protoField{number: 14, wire: 2}))},
		{"another ir_version", "ir_version 9, this program reads 8", at(nil, setVarint(1, 9))},
		{"another operator set", "operator set 18, this program reads 17", at(opsetPath, setVarint(2, 18))},
		{"another domain", `domain "ai.evil"`, at(opsetPath, setBytes(1, "ai.evil"))},
		{"two operator sets", "more than 1 of opset_import", at(nil, appendField(protoField{number: 8, wire: 2}))},

		{"a million empty nodes", "more than 4096 of node", at(graphPath, func(m []protoField) []protoField {
			for range 1 << 20 {
				m = append(m, protoField{number: 1, wire: 2})
			}
			return m
		})},
		{"a million empty initializers", "", at(graphPath, func(m []protoField) []protoField {
			for range 1 << 20 {
				m = append(m, protoField{number: 5, wire: 2})
			}
			return m
		})},
		{"value_info", "value_info is not allowed", at(graphPath, appendField(protoField{number: 13, wire: 2}))},
		{"sparse initializer", "sparse_initializer is not allowed", at(graphPath, appendField(protoField{number: 15, wire: 2}))},

		{"a huge dimension", "dimension 1099511627776", at(weightPath, setVarint(1, 1<<40))},
		{"a negative dimension", "dimension -1", at(weightPath, setVarint(1, math.MaxUint64))},
		{"a dimension of zero", "dimension 0", at(weightPath, setVarint(1, 0))},
		{"dimensions that overflow", "bytes of data", at(weightPath, func(m []protoField) []protoField {
			m = removeField(1)(removeField(1)(m))
			for range 4 {
				m = append(m, protoField{number: 1, value: 1 << 16})
			}
			return m
		})},
		{"nine dimensions", "more than 4 of dims", at(weightPath, func(m []protoField) []protoField {
			for range 9 {
				m = append(m, protoField{number: 1, value: 1})
			}
			return m
		})},
		{"packed dimensions", "wire type 2", at(weightPath, appendField(protoField{number: 1, wire: 2, bytes: []byte{1}}))},
		{"dimensions that disagree with the data", "bytes of data", at(weightPath, setVarint(1, model.AircraftFeatures+1))},
		{"dimensions of another shape", "type 10 and dimensions [8 15]", at(weightPath, func(m []protoField) []protoField {
			m[0].value, m[1].value = m[1].value, m[0].value
			return m
		})},
		{"no data", "0 bytes of data", at(weightPath, removeField(9))},
		{"double elements", "type 11", at(weightPath, setVarint(2, 11))},
		{"float32 where float16 belongs", "bytes of data", at(weightPath, setVarint(2, 1))},
		{"type 2^32+1", "type", at(weightPath, setVarint(2, 1<<32+1))},
		{"external data", "external_data is not allowed",
			at(weightPath, appendField(protoField{number: 13, wire: 2, bytes: []byte("\x0a\x08location")}))},
		{"data in another file", "data_location is not allowed", at(weightPath, setVarint(14, 1))},
		{"values outside raw_data", "field 4", at(weightPath, appendField(protoField{number: 4, wire: 2, bytes: make([]byte, 64)}))},
		{"a weight that is no number", "want a finite number",
			at(weightPath, setBytes(9, strings.Repeat("\xff\x7f", model.AircraftFeatures*8)))},
		{"an infinite bias", "want a finite number", at(biasPath, setBytes(9, strings.Repeat("\x00\x00\x80\x7f", 8)))},
		{"a nameless initializer", `name ""`, at(weightPath, removeField(8))},
		{"a long name", "bytes, want 1 to 64", at(weightPath, setBytes(8, strings.Repeat("x", 1<<20)))},
		{"a duplicated name", `"aircraft.w" stands for both`, at(biasPath, setBytes(8, "aircraft.w"))},
		{"an initializer over an input", `"state" stands for both`, at(biasPath, setBytes(8, "state"))},
		{"a missing initializer", "nothing before it defines", at(graphPath, removeField(5))},
		{"an initializer too many", "initializers", at(graphPath, appendField(protoField{number: 5, wire: 2,
			bytes: encodeFields([]protoField{{number: 1, value: 1}, {number: 2, value: 1}, {number: 8, wire: 2, bytes: []byte("more")},
				{number: 9, wire: 2, bytes: make([]byte, 4)}})}))},

		{"a cycle", "nothing before it defines", at(castPath, setBytes(1, "Cast.1"))},
		{"a dangling input", `reads "nowhere"`, at(castPath, setBytes(1, "nowhere"))},
		{"an empty input name", `reads ""`, at(castPath, setBytes(1, ""))},
		{"an unknown operator", `operator "Loop" is not used by checkpoints`, at(castPath, setBytes(4, "Loop"))},
		{"another operator", "want Cast", at(castPath,
			func(m []protoField) []protoField { return setBytes(4, "Tanh")(removeField(5)(m)) })},
		{"a node of another domain", "domain is not allowed", at(castPath, setBytes(7, "ai.evil"))},
		{"a node without outputs", "no output", at(castPath, removeField(2))},
		{"an output of two nodes", "stands for both", at([]int{7, 0, 1, 1}, setBytes(2, "Cast.1"))},
		{"a node with a hundred inputs", "more than 8 of input", at(castPath, func(m []protoField) []protoField {
			for range 100 {
				m = append(m, protoField{number: 1, wire: 2, bytes: []byte("aircraft.w")})
			}
			return m
		})},
		{"an input too many", "want Cast", at(castPath, appendField(protoField{number: 1, wire: 2, bytes: []byte("pair.w")}))},
		{"a node too many", "nodes", at(graphPath, appendField(protoField{number: 1, wire: 2,
			bytes: encodeFields([]protoField{{number: 1, wire: 2, bytes: []byte("aircraft.w")}, {number: 2, wire: 2, bytes: []byte("more")},
				{number: 4, wire: 2, bytes: []byte("Tanh")}})}))},
		{"two nodes exchanged", "node 0: ", at(graphPath, func(m []protoField) []protoField {
			m[0], m[1] = m[1], m[0]
			return m
		})},
		{"a subgraph", "subgraph", at(castAttributePath, appendField(protoField{number: 6, wire: 2}))},
		{"an attribute's tensor", "t is not allowed", at(castAttributePath, appendField(protoField{number: 5, wire: 2}))},
		{"an attribute of another type", "type 1", at(castAttributePath, setVarint(20, 1))},
		{"an attribute of two values", "another type's value", at(castAttributePath, appendField(protoField{number: 2, wire: 5}))},
		{"an unknown attribute", `attribute "from" is not allowed`, at(castAttributePath, setBytes(1, "from"))},
		{"another value of an attribute", "attribute to 10, want 1", at(castAttributePath, setVarint(3, 10))},
		{"a missing attribute", "want map[to:1]", at(castPath, removeField(5))},
		{"an attribute twice", "occurs twice", at(castPath, func(m []protoField) []protoField { return append(m, m[len(m)-1]) })},

		{"a fixed number of users", "want \"pairs\"", at(usersDimPath,
			func([]protoField) []protoField { return []protoField{{number: 1, value: 6}} })},
		{"junk for a symbolic dimension", "want \"pairs\"", at(usersDimPath, setBytes(2, "../../\x00"))},
		{"bytes for a symbolic dimension", "invalid UTF-8", at(usersDimPath, setBytes(2, "\xff\xfe"))},
		{"a symbolic dimension of a megabyte", "want at most 64", at(usersDimPath, setBytes(2, strings.Repeat("u", 1<<20)))},
		{"a dimension both named and numbered", "want \"pairs\"", at(usersDimPath, setVarint(1, 5))},
		{"a huge input", "want at most 65536", at(usersDimPath,
			func([]protoField) []protoField { return []protoField{{number: 1, value: 1 << 50}} })},
		{"an input of integers", "type 7, want float32", at([]int{7, 0, 11, 1, 2, 0, 1, 0}, setVarint(1, 7))},
		{"a sequence for an input", "sequence_type is not allowed",
			at([]int{7, 0, 11, 1, 2, 0}, appendField(protoField{number: 4, wire: 2}))},
		{"an input less", "inputs", at(graphPath, func(m []protoField) []protoField {
			return append(m[:len(m):len(m)], protoField{number: 11, wire: 2,
				bytes: encodeFields([]protoField{{number: 1, wire: 2, bytes: []byte("more")},
					{number: 2, wire: 2, bytes: encodeFields(
						[]protoField{{number: 1, wire: 2, bytes: encodeFields([]protoField{{number: 1, value: 1},
							{number: 2, wire: 2}})}})}})})
		})},
		{"an output that is an input", "computed by no node", at([]int{7, 0, 12, 0}, setBytes(1, "state"))},
		{"an output renamed", "want \"move\"", at([]int{7, 0, 12, 0}, setBytes(1, "choice"))},
		{"an output less", "outputs", at(graphPath, removeField(12))},
	}
}

// cpuTime is what this process has computed for: what others compute beside it is no
// fault of the input.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestHostileGraphs(t *testing.T) {
	manifest, graph := validCheckpoint(t)
	if _, err := checkpoint.Decode(withGraphHash(manifest, graph), graph, nil); err != nil {
		t.Fatal("the valid graph: ", err)
	}
	for _, c := range hostileGraphs() {
		t.Run(c.name, func(t *testing.T) {
			corrupted := c.corrupt(append([]byte(nil), graph...))
			if bytes.Equal(corrupted, graph) {
				t.Fatal("the case changes nothing")
			}
			m := withGraphHash(manifest, corrupted)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpuTime(t)
			_, err := checkpoint.Decode(m, corrupted, nil)
			took := cpuTime(t) - start
			runtime.ReadMemStats(&after)
			switch {
			case err == nil:
				t.Error("was accepted")
			case !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), checkpoint.GraphFile):
				t.Errorf("refused with %q, want %q", err, c.want)
			case strings.Contains(err.Error(), "\n") || len(err.Error()) > 600:
				t.Errorf("refused with %d bytes: %.900q", len(err.Error()), err)
			}
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 64 || took > time.Second {
				t.Errorf("took %d MB and %v", mb, took)
			}
		})
	}
}

// withStatistics puts statistics into a manifest.
func withStatistics(manifest []byte, s *token.Statistics) []byte {
	var m checkpoint.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		panic(err)
	}
	m.Statistics = *s
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

func TestHostileManifests(t *testing.T) {
	manifest, graph := validCheckpoint(t)
	replace := func(old, new string) func([]byte) []byte {
		return func(m []byte) []byte { return bytes.Replace(m, []byte(old), []byte(new), 1) }
	}
	zeros := strings.Repeat("0", 64)
	for _, c := range []struct {
		name, want string
		corrupt    func(m []byte) []byte
	}{
		{"empty", "unexpected end", func([]byte) []byte { return nil }},
		{"not JSON", "invalid character", func([]byte) []byte { return []byte("PK\x03\x04") }},
		{"cut in half", "unexpected end", func(m []byte) []byte { return m[:len(m)/2] }},
		{"something after it", "invalid character", func(m []byte) []byte { return append(m, '{') }},
		{"nested a hundred thousand deep", "", func([]byte) []byte { return bytes.Repeat([]byte{'['}, 1e5) }},
		{"no version", "no format version, want 1", replace(`"format": 1,`, ``)},
		{"a later version", "format 2, this program reads format 1", replace(`"format": 1`, `"format": 2`)},
		{"a later version with other fields", "format 2, this program reads format 1", replace(`"format": 1`, `"format": 2, "what": {}`)},
		{"an unknown key", `unknown field "extra"`, replace(`"format": 1`, `"format": 1, "extra": 1`)},
		{"a wrong hash", "the manifest says \"" + zeros, func(m []byte) []byte {
			return bytes.Replace(m, []byte(checkpoint.Hash(graph)), []byte(zeros), 1)
		}},
		{"the true hash beside a wrong one", "SHA-256 is " + checkpoint.Hash(graph), func(m []byte) []byte {
			return bytes.Replace(m, []byte(checkpoint.Hash(graph)), []byte(zeros), 1)
		}},
		{"another width", "want", replace(`"width": 8`, `"width": 16`)},
		{"another context", "input 6", replace(`"context": 3`, `"context": 4`)},
		{"more layers", "the manifest's architecture has", replace(`"layers": 2`, `"layers": 3`)},
		{"a monstrous architecture", "architecture width", replace(`"width": 8`, `"width": 1000000000`)},
		{"the largest architecture", "the manifest's architecture has", replace(`"width": 8,
    "pair_width": 4,
    "layers": 2,
    "heads": 2,
    "context": 3`, `"width": 1024, "pair_width": 1024, "layers": 24, "heads": 64, "context": 256`)},
		{"a negative width", "architecture width is -8", replace(`"width": 8`, `"width": -8`)},
		{"another feature", `aircraft feature 0 is "position west" in the checkpoint and "position east" in this program`,
			replace("position east", "position west")},
		{"a feature less", "checkpoint has 14 aircraft features, this program computes 15", replace(`"position east",`, ``)},
		{"a mean too many", "standardisation of aircraft rows has 16 means", replace(`"mean": [`, `"mean": [0,`)},
		{"a deviation of zero", "a positive deviation", replace(`"std": [
        1`, `"std": [0`)},
		{"a number beyond float64", "number 1e999", replace(`"eta_delay_s": 633`, `"eta_delay_s": 1e999`)},
		{"a scale that is no number", "invalid character", replace(`"eta_delay_s": 633`, `"eta_delay_s": NaN`)},
		{"a scale of null", "return scales are 0", replace(`"eta_delay_s": 633`, `"eta_delay_s": null`)},
		{"a price curve that falls", "price curve knot 1", replace("2.7", "-1")},
		{"a band out of order", "attainable band", replace(`"band": [
    0`, `"band": [2`)},
		{"a constant energy", "want a front", replace("39000", "27000")},
		{"a constant delay", "want a front", replace("700", "90")},
		{"a local time of zero", "prior over users", func(m []byte) []byte {
			s := statistics()
			s.Pair.Mean[slices.Index(token.Features().Pair, "T_loc")] = 0
			return withStatistics(m, &s)
		}},
		{"negative bits", "prior over users", func(m []byte) []byte {
			s := statistics()
			s.Pair.Mean[slices.Index(token.Features().Pair, "bits")] = -1
			return withStatistics(m, &s)
		}},
		{"Nakagami fading of 1e17", "nakagami is 1e+17, want an integer", replace(`"nakagami": 3`, `"nakagami": 1e17`)},
		{"Nakagami fading of 0.5", "nakagami is 0.5, want an integer", replace(`"nakagami": 1`, `"nakagami": 0.5`)},
		{"a CPU that melts", "kappa is 1e+300", replace(`"kappa": 1e-28`, `"kappa": 1e300`)},
		{"a carrier of next to no frequency", "a mean gain of +Inf", replace(`"carrier_hz": 2000000000`, `"carrier_hz": 1e-290`)},
		{"shadowing without a mean", "a mean gain of +Inf", replace(`"shadow_db": 6`, `"shadow_db": 300`)},
		{"an altitude of zero", "physics constant altitude_m", replace(`"altitude_m": 100`, `"altitude_m": 0`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			corrupted := c.corrupt(append([]byte(nil), manifest...))
			if bytes.Equal(corrupted, manifest) {
				t.Fatal("the case changes nothing")
			}
			start := cpuTime(t)
			_, err := checkpoint.Decode(corrupted, graph, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if took := cpuTime(t) - start; took > time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestHostileFolders(t *testing.T) {
	manifest, graph := validCheckpoint(t)
	for _, c := range []struct {
		name, want string
		corrupt    func(dir string) error
	}{
		{"no folder", "does not exist", os.RemoveAll},
		{"no manifest", "no checkpoint: ", func(dir string) error { return os.Remove(filepath.Join(dir, checkpoint.ManifestFile)) }},
		{"no graph", "policy.onnx does not exist", func(dir string) error { return os.Remove(filepath.Join(dir, checkpoint.GraphFile)) }},
		{"a graph of 4 GB", "4294967296 bytes, want at most 16777216", func(dir string) error {
			return os.Truncate(filepath.Join(dir, checkpoint.GraphFile), 4<<30)
		}},
		{"a manifest of 1 GB", "1073741824 bytes, want at most 1048576", func(dir string) error {
			return os.Truncate(filepath.Join(dir, checkpoint.ManifestFile), 1<<30)
		}},
		{"a pipe", "is not a file", func(dir string) error {
			path := filepath.Join(dir, checkpoint.GraphFile)
			if err := os.Remove(path); err != nil {
				return err
			}
			return syscall.Mkfifo(path, 0o600)
		}},
		{"a folder for a file", "is not a file", func(dir string) error {
			path := filepath.Join(dir, checkpoint.ManifestFile)
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		}},
		{"one flipped bit", "SHA-256 is", func(dir string) error {
			g := append([]byte(nil), graph...)
			g[len(g)/2] ^= 1
			return os.WriteFile(filepath.Join(dir, checkpoint.GraphFile), g, 0o600)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "checkpoint")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, data := range map[string][]byte{checkpoint.ManifestFile: manifest, checkpoint.GraphFile: graph} {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := checkpoint.Load(dir); err != nil {
				t.Fatal("the valid folder: ", err)
			}
			if err := c.corrupt(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := checkpoint.Load(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// An editor of Windows may have put a byte order mark before the manifest.
func TestByteOrderMark(t *testing.T) {
	manifest, graph := validCheckpoint(t)
	if _, err := checkpoint.Decode(append([]byte("\ufeff"), manifest...), graph, nil); err != nil {
		t.Fatal(err)
	}
}
