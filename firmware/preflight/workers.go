package preflight

import (
	"context"
	"log/slog"
	"net"
	"strconv"

	"prefdt/firmware/workers"
	"prefdt/telemetry"
)

// workers waits for a heartbeat of each worker that is configured.
func (p *preflight) workers(ctx context.Context) {
	c := &p.config
	w, silent := workers.Workers{Fleet: c.Fleet, Workers: c.Workers()}, map[int]bool{}
	for i, a := range c.Aircraft {
		if a.Worker != "" {
			silent[i+1] = true
		}
	}
	topics, err := telemetry.NewTopics(c.Fleet)
	if p.fails("worker", err) {
		return
	}
	p.fails("worker", w.Initialize()) // the others' keys are there, all the same
	if !w.Configured() {
		return
	}
	received := make(chan telemetry.Message, 64)
	client := &telemetry.Client{
		Broker: c.Broker, Name: "leader-check", Log: slog.New(slog.DiscardHandler),
		Subscriptions: []telemetry.Subscription{{Filter: topics.AllWorkers()}},
		Handle:        func(m telemetry.Message) { trySend(received, m) },
	}
	ctx, cancel := context.WithTimeout(ctx, min(p.wait, 2*workers.Silent))
	defer cancel()
	if p.fails("worker", client.Initialize(ctx)) {
		return
	}
	defer client.Close()
	for ctx.Err() == nil && len(silent) > 0 {
		select {
		case m := <-received:
			_, id, _ := topics.Parse(m.Topic)
			number, _ := strconv.Atoi(id)
			if h, err := telemetry.DecodeWorker(m.Payload); err == nil && h.CPUHz > 0 && silent[number] {
				delete(silent, number)
				p.add(ResultOK, "worker", "of aircraft %d: %.3g Hz, %d functions, for users at %s", number, h.CPUHz, len(h.Functions),
					w.Address(number))
			}
		case <-ctx.Done():
		}
	}
	for i, a := range c.Aircraft {
		if host, _, err := net.SplitHostPort(a.Worker); err == nil && telemetry.LocalName(host) {
			p.add(ResultWarn, "worker", "of aircraft %d: users may not find %s: %s", i+1, host, telemetry.LocalNameHint)
		}
		switch number := i + 1; {
		case silent[number]:
			p.add(ResultFail, "worker", "of aircraft %d: no heartbeat with capacity on %s; does prefdt-worker run?", number,
				topics.Worker(number))
		case a.Worker == "":
			p.add(ResultWarn, "worker", "aircraft %d has none: no user is sent there", number)
		case a.GrantKey == "":
			p.add(ResultWarn, "worker", "of aircraft %d: no grant_key: users go there by the standing offer alone", number)
		}
	}
}
