package telemetry

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"sync"
)

// RejectCounter counts rejected input by kind and logs the first of each kind, so that
// many invalid payloads are visible in the log without flooding it. The zero value
// logs to slog.Default. It is safe for concurrent use.
type RejectCounter struct {
	Log *slog.Logger

	mutex  sync.Mutex
	counts map[string]uint64
}

// Add counts err, by its kind if it is an [*InvalidError]. The topic is for the log.
func (r *RejectCounter) Add(topic string, err error) {
	kind := err.Error()
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		kind = invalid.Kind
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.counts == nil {
		r.counts = map[string]uint64{}
	}
	if _, known := r.counts[kind]; !known && len(r.counts) >= maxRejectKinds {
		kind = "other"
	}
	r.counts[kind]++
	if r.counts[kind] == 1 {
		cmp.Or(r.Log, slog.Default()).Warn("input refused; more of this kind are only counted", "kind", kind, "topic", quote(topic),
			"reason", err)
	}
}

// Counts returns how many were rejected, by kind.
func (r *RejectCounter) Counts() map[string]uint64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return maps.Clone(r.counts)
}

// Total returns how many were rejected.
func (r *RejectCounter) Total() (n uint64) {
	for _, count := range r.Counts() {
		n += count
	}
	return n
}
