package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"prefdt/telemetry"
)

// Finding is what a broker does against the rules for one name.
type Finding struct {
	Name    string
	Problem string
}

// quiet is how long nothing more must have been received before what is missing counts
// as refused.
const quiet = 2 * time.Second

// checker connects once as each name, and notes who received whose publications.
type checker struct {
	folder  string
	broker  telemetry.Broker
	topics  telemetry.Topics
	all     []Certificate // of clients
	list    []topicRight
	mark    string              // begins the payloads of this check: no program reads them as a message
	clients []*telemetry.Client // one for each certificate; nil: it cannot connect

	mutex         sync.Mutex
	eavesdroppers []*telemetry.Client
	received      map[delivery]bool
	lastAt        time.Time // of the last delivery
}

// delivery is a publication that was received.
type delivery struct {
	topic          string
	writer, reader int // places in the list of certificates
}

// Check connects to a broker with every certificate of a client, publishes every topic of
// the rules with each, permitted or not, and receives with each. A broker acknowledges
// what it refuses, and delivers nothing: so a refusal is seen only by those that are
// permitted to receive. The payloads are no messages, and are not retained: a leader at
// that broker counts them as malformed.
func Check(ctx context.Context, folder string, broker telemetry.Broker, topics telemetry.Topics, all []Certificate) (findings []Finding, err error) {
	c := &checker{
		folder: folder, broker: broker, topics: topics, all: all, list: topicRights(topics, all), clients: make([]*telemetry.Client, len(all)),
		mark: "ground certs -check " + rand.Text() + " ", received: map[delivery]bool{}, lastAt: time.Now(),
	}
	defer c.close()
	problems := make([]error, len(all))
	c.each(func(i int) { problems[i] = c.connect(ctx, i) })
	for i, err := range problems {
		if err != nil {
			findings = append(findings, Finding{all[i].Name, "cannot connect: " + err.Error()})
		}
	}
	if len(findings) == len(all) {
		return nil, fmt.Errorf("no name can connect; as %s: %w", all[0].Name, problems[0])
	}
	c.each(func(i int) { problems[i] = c.publishAll(ctx, i) })
	for i, err := range problems {
		if err != nil {
			findings = append(findings, Finding{all[i].Name, err.Error()})
		}
	}
	c.mutex.Lock()
	c.lastAt = time.Now()
	c.mutex.Unlock()
	if err := c.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, r := range c.list {
		findings = append(findings, c.compare(r)...)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return strings.Compare(a.Name, b.Name) })
	return findings, nil
}

// each calls f for every certificate, concurrently.
func (c *checker) each(f func(i int)) {
	var done sync.WaitGroup
	for i := range c.all {
		done.Go(func() { f(i) })
	}
	done.Wait()
}

func (c *checker) close() {
	for _, client := range append(c.clients, c.eavesdroppers...) {
		if client != nil {
			client.Close()
		}
	}
}

// connectTimeout is for one name. One that is refused for its certificate ends the
// connection, which looks like a broker that is away.
const connectTimeout = 3 * time.Second

// connect connects as one name: once with the topics that it may receive, and once more
// with all of the fleet, which a broker may refuse.
func (c *checker) connect(ctx context.Context, i int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	own, everything := []telemetry.Subscription{}, []telemetry.Subscription{{Filter: c.topics.All(), QoS: 1}}
	for _, r := range c.list {
		if r.allows(r.readers, &c.all[i]) {
			own = append(own, telemetry.Subscription{Filter: r.topic, QoS: 1})
		}
	}
	client := c.newClient(i, own)
	if err := client.Initialize(ctx); err != nil {
		return err
	}
	c.clients[i] = client
	eavesdropper := c.newClient(i, everything)
	if eavesdropper.Initialize(ctx) == nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.eavesdroppers = append(c.eavesdroppers, eavesdropper)
	}
	return nil
}

func (c *checker) newClient(reader int, subscriptions []telemetry.Subscription) *telemetry.Client {
	broker := c.broker
	broker.CA, _ = Files(c.folder, NameAuthority)
	broker.Cert, broker.Key = Files(c.folder, c.all[reader].Name)
	handle := func(m telemetry.Message) {
		text, ours := strings.CutPrefix(string(m.Payload), c.mark)
		writer, err := strconv.Atoi(text)
		if !ours || err != nil {
			return
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.received[delivery{m.Topic, writer, reader}] = true
		c.lastAt = time.Now()
	}
	return &telemetry.Client{Broker: broker, Name: "check", Log: slog.New(slog.DiscardHandler), Subscriptions: subscriptions, Handle: handle}
}

// publishAll publishes each topic as one name. That a forbidden publication ends the
// connection is as good a refusal as any.
func (c *checker) publishAll(ctx context.Context, i int) error {
	client := c.clients[i]
	if client == nil {
		return nil
	}
	for _, r := range c.list {
		permitted := r.allows(r.writers, &c.all[i])
		if !permitted && !r.sampled {
			continue
		}
		for wait := time.Now(); !client.Connected() && time.Since(wait) < connectTimeout && ctx.Err() == nil; {
			time.Sleep(10 * time.Millisecond)
		}
		one, cancel := context.WithTimeout(ctx, connectTimeout)
		err := client.PublishWait(one, telemetry.Publication{Topic: r.topic, QoS: 1, Payload: []byte(c.mark + strconv.Itoa(i))})
		cancel()
		if err != nil && permitted {
			return fmt.Errorf("publishes %s: %w", r.topic, err)
		}
	}
	return nil
}

func (c *checker) awaitQuiet(ctx context.Context) error {
	for {
		c.mutex.Lock()
		left := quiet - time.Since(c.lastAt)
		c.mutex.Unlock()
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return errors.New("interrupted")
		}
	}
}

// compare compares who received a topic from whom with the rule for it.
func (c *checker) compare(r topicRight) (findings []Finding) {
	all, clients := c.all, c.clients
	reached := func(writer, reader int) bool { return c.received[delivery{r.topic, writer, reader}] }
	var writers, readers []int // that are permitted, and connected
	for i := range all {
		if clients[i] == nil {
			continue
		}
		if r.allows(r.writers, &all[i]) {
			writers = append(writers, i)
		}
		if r.allows(r.readers, &all[i]) {
			readers = append(readers, i)
		}
	}
	add := func(who int, format string, args ...any) {
		findings = append(findings, Finding{all[who].Name, fmt.Sprintf(format, args...)})
	}
	for i := range all {
		byThis := func(reader int) bool { return reached(i, reader) }
		toThis := func(writer int) bool { return reached(writer, i) }
		switch canWrite := slices.Contains(writers, i); {
		case clients[i] == nil:
			continue
		case canWrite && len(readers) > 0 && !slices.ContainsFunc(readers, byThis):
			add(i, "publishes %s: refused, nobody received it", r.topic)
		case !canWrite && slices.ContainsFunc(indices(all), byThis):
			add(i, "publishes %s: PERMITTED, want it refused", r.topic)
		}
		delivered := slices.ContainsFunc(writers, func(w int) bool { return slices.ContainsFunc(readers, func(r int) bool { return reached(w, r) }) })
		switch canRead := slices.Contains(readers, i); {
		case canRead && delivered && !slices.ContainsFunc(writers, toThis):
			add(i, "receives %s: refused, others received it", r.topic)
		case !canRead && slices.ContainsFunc(indices(all), toThis):
			add(i, "receives %s: PERMITTED, want it refused", r.topic)
		}
	}
	return findings
}

func indices(all []Certificate) (list []int) {
	for i := range all {
		list = append(list, i)
	}
	return list
}
