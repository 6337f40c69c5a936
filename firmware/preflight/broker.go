package preflight

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/link"
	"prefdt/telemetry"
	"prefdt/telemetry/access"
)

const endsSoon = 14 * 24 * time.Hour

// lasts checks from when until when something is good, by this machine's clock.
func (p *preflight) lasts(item, what string, from, until time.Time) {
	switch now := time.Now(); {
	case now.After(until):
		p.add(ResultFail, item, "%s ended on %s; this machine's clock says %s. `ground certs` renews it", what, formatDate(until),
			formatDate(now))
	case now.Before(from):
		p.add(ResultWarn, item, "%s begins on %s, and this machine's clock says %s: the clock is behind; set it", what, formatDate(from),
			formatDate(now))
	case now.Add(endsSoon).After(until):
		p.add(ResultWarn, item, "%s ends on %s; `ground certs` renews it", what, formatDate(until))
	default:
		p.add(ResultOK, item, "%s is good until %s", what, formatDate(until))
	}
}

// certificates checks the broker's, its authority's, and the list of revoked ones where that is beside it: a broker whose list has
// ended refuses everybody.
func (p *preflight) certificates() {
	b := &p.config.Broker
	shown, err := b.Certificates()
	if err == nil && len(shown) > 0 {
		p.lasts("certificate", "the broker's certificate", shown[0].NotBefore, shown[0].NotAfter)
	}
	if b.CA == "" {
		return
	}
	raw, _ := os.ReadFile(b.CA) // whether it can be read the connection tells
	if block, _ := pem.Decode(raw); block != nil {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			p.lasts("certificate", "the authority's, "+b.CA+",", c.NotBefore, c.NotAfter)
		}
	}
	path := filepath.Join(filepath.Dir(b.CA), access.RevokedFile)
	list, err := access.ReadRevoked(path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if !p.fails("certificate", err) {
		p.lasts("certificate", "the list of revoked ones, "+path+",", list.ThisUpdate, list.NextUpdate)
	}
}

// trial is a connection to the broker on which what the leader will use is tried.
type trial struct {
	client *telemetry.Client
	ack    string // a topic of its own: of the answer to a command that was never sent

	mutex    sync.Mutex
	received []telemetry.Message
}

func (x *trial) handle(m telemetry.Message) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.received = append(x.received[max(0, len(x.received)-1000):], m)
}

// comesBack publishes a message, and is nil once it was received.
func (x *trial) comesBack(ctx context.Context, m telemetry.Publication) error {
	for !x.client.Connected() { // the message before may have ended the connection
		if !sleep(ctx, 10*time.Millisecond) {
			return telemetry.ErrNotConnected
		}
	}
	if err := x.client.PublishWait(ctx, m); err != nil {
		return fmt.Errorf("the broker ends the connection: %w", err)
	}
	for !x.has(m.Topic, m.Payload) {
		if !sleep(ctx, time.Millisecond) {
			return errors.New("it does not come back")
		}
	}
	return nil
}

func (x *trial) has(topic string, payload []byte) bool {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for _, m := range x.received {
		if m.Topic == topic && bytes.Equal(m.Payload, payload) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// subscriptions are the leader's.
func subscriptions(t telemetry.Topics, ack string, workers bool) []telemetry.Subscription {
	all := []telemetry.Subscription{
		{Filter: t.AllCommands(), QoS: 1}, {Filter: t.AllHeartbeats()}, {Filter: t.AllReports()}, {Filter: t.AllResults(), QoS: 1},
		{Filter: t.Online(), QoS: 1}, {Filter: t.Slot()}, {Filter: t.Status()}, {Filter: t.Hello(), QoS: 1}, {Filter: t.Proof(), QoS: 1},
		{Filter: ack, QoS: 1},
	}
	if workers {
		all = append(all, telemetry.Subscription{Filter: t.AllWorkers()})
	}
	return all
}

// broker connects as the leader would, with a will, and has each kind of message that it will publish come back.
func (p *preflight) broker(ctx context.Context) {
	topics, err := telemetry.NewTopics(p.config.Fleet)
	if p.fails("broker", err) {
		return
	}
	p.certificates()
	id := fmt.Sprintf("preflight-%d", time.Now().UnixNano())
	x := &trial{ack: topics.Ack(id)}
	workers := false
	for _, a := range p.config.Aircraft {
		workers = workers || a.Worker != ""
	}
	x.client = p.newClient(x)
	x.client.Subscriptions = subscriptions(topics, x.ack, workers)
	limited, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	if p.fails("broker", x.client.Initialize(limited)) {
		return
	}
	defer x.client.Close()
	if p.roundTrip(ctx, x, id, topics) && p.largest(ctx, x, id) && p.retained(ctx, x, id) && p.otherLeader(ctx) {
		p.publishes(ctx, x, topics)
	}
}

func (p *preflight) newClient(x *trial) *telemetry.Client {
	return &telemetry.Client{Broker: p.config.Broker, Name: "leader-check", Log: slog.New(slog.DiscardHandler), Handle: x.handle,
		Subscriptions: []telemetry.Subscription{{Filter: x.ack, QoS: 1}}}
}

// answerWithin is how long a message may take to come back.
func (p *preflight) answerWithin() time.Duration { return min(p.wait, 3*time.Second) }

// roundTrip has a small message come back: a refusal of a command that was never sent, which is harmless, and which only the leader
// may publish.
func (p *preflight) roundTrip(ctx context.Context, x *trial, id string, topics telemetry.Topics) bool {
	how := "without TLS"
	if strings.HasPrefix(p.config.Broker.URL, "tls") || strings.HasPrefix(p.config.Broker.URL, "ssl") ||
		strings.HasPrefix(p.config.Broker.URL, "mqtts") {
		how = "over TLS"
	}
	how += " " + identity(&p.config.Broker)
	payload, err := telemetry.Encode(telemetry.Ack{ID: id, Reason: "pre-flight check"})
	if p.fails("broker", err) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, p.answerWithin())
	defer cancel()
	began := time.Now()
	err = x.comesBack(limited, telemetry.Publication{Topic: x.ack, QoS: 1, Payload: payload})
	switch took := time.Since(began); {
	case ctx.Err() != nil:
		return false
	case err != nil:
		p.add(ResultFail, "broker", "%s connected %s, but what the leader publishes on %s does not come back: the broker's access rules "+
			"may forbid it", p.config.Broker.URL, how, topics.Ack("+"))
		return false
	case took > time.Duration(p.config.ReportByMS/2*float64(time.Millisecond)):
		p.add(ResultWarn, "broker", "%s connected %s; a message takes %v there and back, too long for report_by_ms %g",
			p.config.Broker.URL, how, took.Round(100*time.Microsecond), p.config.ReportByMS)
	default:
		p.add(ResultOK, "broker", "%s connected %s, a message is back in %v", p.config.Broker.URL, how, took.Round(100*time.Microsecond))
	}
	return true
}

// largest has a message come back that is as long as this fleet's longest status, or as any but a status may be.
func (p *preflight) largest(ctx context.Context, x *trial, id string) bool {
	longest := telemetry.LongestStatus(len(p.config.Aircraft))
	n := min(longest, telemetry.MaxPayload)
	payload, err := telemetry.Encode(telemetry.Ack{ID: id, Reason: "pre-flight check"})
	if p.fails("broker", err) {
		return false
	}
	payload = append(payload, bytes.Repeat([]byte(" "), max(0, n-len(payload)))...)
	limited, cancel := context.WithTimeout(ctx, p.answerWithin())
	defer cancel()
	err = x.comesBack(limited, telemetry.Publication{Topic: x.ack, QoS: 1, Payload: payload})
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		p.add(ResultFail, "broker", "does not carry %d bytes, which a status of %d aircraft may take: %v; raise its limits (mosquitto: "+
			"message_size_limit to %d, max_packet_size to %d)", n, len(p.config.Aircraft), err, max(longest, telemetry.MaxPayload),
			max(longest, telemetry.MaxPayload)+512)
	case longest > n:
		p.add(ResultOK, "broker", "carries %d bytes; a status of %d aircraft may take %d: see that its limits allow that", n,
			len(p.config.Aircraft), longest)
	default:
		p.add(ResultOK, "broker", "carries %d bytes, the longest status", n)
	}
	return true
}

// retained has a message kept for who subscribes later, and removes it. One who connects with it as its will, which the leader's is,
// comes first.
func (p *preflight) retained(ctx context.Context, x *trial, id string) bool {
	payload, err := telemetry.Encode(telemetry.Ack{ID: id, Reason: "pre-flight check: retained"})
	if p.fails("broker", err) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, p.answerWithin())
	defer cancel()
	m := telemetry.Publication{Topic: x.ack, QoS: 1, Retained: true, Payload: payload}
	defer func() { x.client.PublishWait(limited, telemetry.Publication{Topic: x.ack, QoS: 1, Retained: true}) }() // removes it
	willing, later := &trial{ack: x.ack}, &trial{ack: x.ack}
	willing.client, later.client = p.newClient(willing), p.newClient(later)
	willing.client.Will = &m
	if err = willing.client.Initialize(limited); err == nil {
		willing.client.Close() // which publishes the will
		err = x.comesBack(limited, m)
	}
	if err == nil {
		err = later.client.Initialize(limited)
	}
	if err == nil {
		defer later.client.Close()
		for !later.has(x.ack, payload) && err == nil {
			if !sleep(limited, time.Millisecond) {
				err = errors.New("who subscribes later does not get it")
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		p.add(ResultFail, "broker", "keeps no retained message, as the leader's status and its will are: %v; mosquitto needs "+
			"retain_available true", err)
	default:
		p.add(ResultOK, "broker", "keeps retained messages")
	}
	return true
}

// publishes has a message come back of each topic that the leader both writes and reads: what is no message of the wire, and not
// retained. What a user alone may read, and what others alone may write, `ground certs -check` tries.
func (p *preflight) publishes(ctx context.Context, x *trial, t telemetry.Topics) {
	var refused []string
	for _, topic := range []string{t.Slot(), t.Status(), t.Online(), t.Hello(), t.Proof()} {
		limited, cancel := context.WithTimeout(ctx, p.answerWithin())
		err := x.comesBack(limited, telemetry.Publication{Topic: topic, QoS: 1, Payload: []byte("pre-flight check")})
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			refused = append(refused, topic)
		}
	}
	if len(refused) > 0 {
		p.add(ResultFail, "broker", "what the leader publishes on %s does not come back: the broker's access rules have to let it write "+
			"and read there (configs/mosquitto/acl)", strings.Join(refused, ", "))
		return
	}
	p.add(ResultOK, "broker", "all topics of the leader can be written, and read where it reads them")
}

// identity is the name by which a broker may know the leader.
func identity(b *telemetry.Broker) string {
	if b.Cert != "" {
		if pair, err := telemetry.LoadCertificate(b.Cert, b.Key); err == nil {
			return fmt.Sprintf("with the certificate of %q", pair.Leaf.Subject.CommonName)
		}
	}
	if b.Username != "" {
		return fmt.Sprintf("as %q", b.Username)
	}
	return "without a name"
}

// otherLeader looks for another leader as the leader does when it starts.
func (p *preflight) otherLeader(ctx context.Context) (none bool) {
	c := &p.config
	if c.LeaderKeyFile != "" && p.leaderKey == nil {
		return false // commandKeys has said why
	}
	l := link.MQTT{Broker: c.Broker, Fleet: c.Fleet, SlotDuration: c.WallTime(1), Clock: clock.New(), LeaderKey: p.leaderKey,
		Log: slog.New(slog.DiscardHandler)}
	if err := l.FindIncumbent(ctx); ctx.Err() == nil && !p.fails("other leader", err) {
		p.add(ResultOK, "other leader", "none was received")
		return true
	}
	return false
}

func trySend[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}
