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

// checker connects as each name, and notes who received whose publications.
type checker struct {
	folder  string
	broker  telemetry.Broker
	all     []Certificate // of clients
	rows    []topicRight
	mark    string              // begins the payloads of this check: no program reads them as a message
	clients []*telemetry.Client // one for each certificate; nil: it cannot connect

	mutex    sync.Mutex
	received map[delivery]bool
	lastAt   time.Time // of the last delivery
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
func Check(ctx context.Context, folder string, broker telemetry.Broker, topics telemetry.Topics, all []Certificate) (findings []Finding,
	err error) {
	c := &checker{
		folder: folder, broker: broker, all: all, rows: topicRights(topics, all), clients: make([]*telemetry.Client, len(all)),
		mark: "ground certs -check " + rand.Text() + " ", received: map[delivery]bool{},
	}
	defer func() {
		for _, i := range c.connected(nil) {
			c.clients[i].Close()
		}
	}()
	refused := c.each(func(i int) error { return c.connect(ctx, i, topics.All()) })
	for i, err := range refused {
		findings = append(findings, Finding{all[i].Name, "cannot connect: " + err.Error()})
	}
	if len(findings) == len(all) {
		return nil, fmt.Errorf("no name can connect; as %s: %w", all[0].Name, refused[0])
	}
	for i, err := range c.each(func(i int) error { return c.publishAll(ctx, i) }) {
		findings = append(findings, Finding{all[i].Name, err.Error()})
	}
	c.mutex.Lock()
	c.lastAt = time.Now()
	c.mutex.Unlock()
	if err := c.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, r := range c.rows {
		findings = append(findings, c.compare(r)...)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return strings.Compare(a.Name, b.Name) })
	return findings, nil
}

// each calls f for every certificate, concurrently, and returns the errors.
func (c *checker) each(f func(i int) error) map[int]error {
	var mutex sync.Mutex
	failed := map[int]error{}
	var done sync.WaitGroup
	for i := range c.all {
		done.Go(func() {
			if err := f(i); err != nil {
				mutex.Lock()
				defer mutex.Unlock()
				failed[i] = err
			}
		})
	}
	done.Wait()
	return failed
}

// connectTimeout is for one name. One that is refused for its certificate ends the
// connection, which looks like a broker that is away.
const connectTimeout = 3 * time.Second

// connect connects as one name, to receive everything of the fleet; where a broker refuses
// that, what the name may receive.
func (c *checker) connect(ctx context.Context, i int, everything string) (err error) {
	for _, filters := range [][]string{{everything}, nil} {
		if filters == nil {
			for _, r := range c.rows {
				if r.allows(r.readers, &c.all[i]) {
					filters = append(filters, r.topic)
				}
			}
		}
		client := c.newClient(i, filters)
		one, cancel := context.WithTimeout(ctx, connectTimeout)
		err = client.Initialize(one)
		cancel()
		if err == nil {
			c.clients[i] = client
			break
		}
	}
	return err
}

func (c *checker) newClient(reader int, filters []string) *telemetry.Client {
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
	client := &telemetry.Client{Broker: broker, Name: "check", Log: slog.New(slog.DiscardHandler), Handle: handle}
	for _, f := range filters {
		client.Subscriptions = append(client.Subscriptions, telemetry.Subscription{Filter: f, QoS: 1})
	}
	return client
}

// publishAll publishes each topic as one name. That a forbidden publication ends the
// connection is as good a refusal as any.
func (c *checker) publishAll(ctx context.Context, i int) error {
	client := c.clients[i]
	for _, r := range c.rows {
		permitted := r.allows(r.writers, &c.all[i])
		if client == nil || !permitted && !r.sampled {
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

// connected are the places of those that are connected, and among some.
func (c *checker) connected(among func(*Certificate) bool) (list []int) {
	for i := range c.all {
		if c.clients[i] != nil && (among == nil || among(&c.all[i])) {
			list = append(list, i)
		}
	}
	return list
}

// compare compares who received a topic from whom with the rule for it.
func (c *checker) compare(r topicRight) (findings []Finding) {
	arrived := func(writers, readers []int) bool {
		return slices.ContainsFunc(writers, func(w int) bool {
			return slices.ContainsFunc(readers, func(d int) bool { return c.received[delivery{r.topic, w, d}] })
		})
	}
	all := c.connected(nil)
	writers := c.connected(func(x *Certificate) bool { return r.allows(r.writers, x) })
	readers := c.connected(func(x *Certificate) bool { return r.allows(r.readers, x) })
	for _, i := range all {
		one := []int{i}
		writes, reads := slices.Contains(writers, i), slices.Contains(readers, i)
		for _, x := range []struct {
			wrong   bool
			problem string
		}{
			{writes && len(readers) > 0 && !arrived(one, readers), "publishes %s: refused, nobody received it"},
			{!writes && arrived(one, all), "publishes %s: PERMITTED, want it refused"},
			{reads && arrived(writers, readers) && !arrived(writers, one), "receives %s: refused, others received it"},
			{!reads && arrived(all, one), "receives %s: PERMITTED, want it refused"},
		} {
			if x.wrong {
				findings = append(findings, Finding{c.all[i].Name, fmt.Sprintf(x.problem, r.topic)})
			}
		}
	}
	return findings
}
