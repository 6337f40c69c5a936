package judge

import (
	"cmp"
	"math"
	"slices"
)

// span is from a moment on, until just before another, in seconds of the record.
type span struct{ fromS, toS float64 }

// spans are in order, and neither overlap nor touch.
type spans []span

// newSpans puts spans in order, and joins those that overlap or touch.
func newSpans(all ...span) (s spans) {
	all = slices.DeleteFunc(slices.Clone(all), func(x span) bool { return !(x.toS > x.fromS) })
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.fromS, b.fromS) })
	for _, x := range all {
		if n := len(s); n > 0 && x.fromS <= s[n-1].toS {
			s[n-1].toS = max(s[n-1].toS, x.toS)
			continue
		}
		s = append(s, x)
	}
	return s
}

// or is the time in one of both.
func (s spans) or(o spans) spans { return newSpans(append(slices.Clone(s), o...)...) }

// and is the time in both.
func (s spans) and(o spans) (both spans) {
	for i, k := 0, 0; i < len(s) && k < len(o); {
		if x := (span{max(s[i].fromS, o[k].fromS), min(s[i].toS, o[k].toS)}); x.toS > x.fromS {
			both = append(both, x)
		}
		if s[i].toS < o[k].toS {
			i++
		} else {
			k++
		}
	}
	return both
}

// not is all other time.
func (s spans) not() (rest spans) {
	from := math.Inf(-1)
	for _, x := range s {
		if x.fromS > from {
			rest = append(rest, span{from, x.fromS})
		}
		from = x.toS
	}
	if !math.IsInf(from, 1) {
		rest = append(rest, span{from, math.Inf(1)})
	}
	return rest
}

// without is the time in s and not in o.
func (s spans) without(o spans) spans { return s.and(o.not()) }

// wider begins each so much sooner, and ends it so much later.
func (s spans) wider(soonerS, laterS float64) spans {
	all := make([]span, 0, len(s))
	for _, x := range s {
		all = append(all, span{x.fromS - soonerS, x.toS + laterS})
	}
	return newSpans(all...)
}

// from leaves out the first seconds of each.
func (s spans) from(afterS float64) spans { return s.wider(-afterS, 0) }

// contains reports whether a moment is in one of them.
func (s spans) contains(timeS float64) bool {
	_, ok := s.at(timeS)
	return ok
}

// at is the one that a moment is in.
func (s spans) at(timeS float64) (x span, ok bool) {
	k, found := slices.BinarySearchFunc(s, timeS, func(x span, t float64) int { return cmp.Compare(x.fromS, t) })
	if !found {
		k--
	}
	if k < 0 || timeS >= s[k].toS {
		return span{}, false
	}
	return s[k], true
}

// firstS is when the first of them begins; +Inf: there is none.
func (s spans) firstS() float64 {
	if len(s) == 0 {
		return math.Inf(1)
	}
	return s[0].fromS
}

// lastBefore is when the last of them ended at or before a moment, or that moment in one; -Inf: none did.
func (s spans) lastBefore(timeS float64) float64 {
	last := math.Inf(-1)
	for _, x := range s {
		if x.fromS <= timeS {
			last = max(last, min(x.toS, timeS))
		}
	}
	return last
}

// touches reports whether one of them has a moment from one time to another.
func (s spans) touches(fromS, toS float64) bool {
	return slices.ContainsFunc(s, func(x span) bool { return x.fromS <= toS && x.toS >= fromS })
}

// lengthS is how long they are together.
func (s spans) lengthS() (sum float64) {
	for _, x := range s {
		sum += x.toS - x.fromS
	}
	return sum
}

// spansOf are the times in which something holds of samples in order, each until the next one.
func spansOf[T any](samples []T, timeS func(*T) float64, holds func(*T) bool) spans {
	var all []span
	for k := range samples {
		if !holds(&samples[k]) {
			continue
		}
		to := timeS(&samples[k])
		if k+1 < len(samples) {
			to = timeS(&samples[k+1])
		}
		all = append(all, span{timeS(&samples[k]), to})
	}
	return newSpans(all...)
}
