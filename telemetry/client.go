package telemetry

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// Client is one program's connection to the broker. It keeps connecting: each
// connection is a clean session with a client id of its own that subscribes
// again and calls OnConnect. With one id for all, a broker that notices late
// that the old connection is gone may end the new one in its place.
// Nothing published while the broker is away is kept for later, since a beacon
// or decision of a past slot only misleads.
//
// A leader makes two in turn: the first without a Will, to listen whether
// another leader is there, then, after closing that one, its own.
type Client struct {
	Broker Broker
	Name   string        // of the program, the start of the client id unless Broker.ClientID is set
	Will   *Publication  // what the broker publishes when we are lost; Close publishes it too
	Retry  time.Duration // before the second attempt to connect; it doubles up to maxRetryFactor times as much; 0: 250 ms
	Log    *slog.Logger  // nil: slog.Default

	Subscriptions []Subscription // filters must not overlap, or a message comes once for each

	// The callbacks run on goroutines of the client's, one for each queue that
	// Subscriptions name, and must not be changed after Initialize. Messages of one
	// queue come in the order of arrival, those of several at the same time. A
	// callback may publish, and wait; while it waits, messages of its queue queue
	// up, and beyond the queue are dropped and counted. It must not call Close.
	Handle       func(Message) // nil: nothing is subscribed to
	OnConnect    func()        // after the subscriptions of each connection; publishes what is retained. In the queue without a name
	OnDisconnect func(error)   // after a connection was lost; likewise

	prefix    string // of the client ids
	address   string
	retryWait time.Duration // before the next attempt; whoever connects owns it
	options   *mqtt.ClientOptions
	cancel    context.CancelFunc
	done      sync.WaitGroup
	session   atomic.Pointer[session] // nil while not connected

	queues              []*queue      // from the broker, to the callbacks; the first is the one without a name
	events              chan func()   // OnConnect and OnDisconnect
	outbox              chan outgoing // from Publish, to the broker
	droppedPublications atomic.Uint64
}

// Subscription is a topic filter and the most its messages are acknowledged for.
type Subscription struct {
	Filter string
	QoS    byte

	// Queue names where its messages wait for Handle. What must not wait behind a
	// flood of other messages, nor be dropped for it, has a queue of its own.
	Queue string
}

// Message is what arrived.
type Message struct {
	Topic    string
	Payload  []byte
	Retained bool      // was published before we subscribed
	Received time.Time // with Go's monotonic clock
}

// Publication is what to publish.
type Publication struct {
	Topic    string
	QoS      byte
	Retained bool
	Payload  []byte
}

// maxRetryFactor times Retry is the longest wait between attempts to connect. A
// connection that lives for less does not count as the broker being back.
const maxRetryFactor = 8

var (
	ErrNotConnected = errors.New("broker not connected")
	ErrQueueFull    = errors.New("the broker takes messages too slowly")
)

// session is one connection.
type session struct {
	mqtt        mqtt.Client
	id          string
	connectedAt time.Time
	lost        chan struct{} // closed when the connection is gone
	err         error         // why, before lost is closed
}

type outgoing struct {
	Publication
	result chan<- error // receives what became of it, unless nil
}

// Initialize connects to the broker and returns once the subscriptions stand and
// OnConnect was asked for. An unreachable broker is tried again, with a line in
// the log for each attempt, until ctx ends; one that refuses the credentials or
// a subscription is an error at once. ctx plays no role after that.
func (c *Client) Initialize(ctx context.Context) error {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Retry == 0 {
		c.Retry = 250 * time.Millisecond
	}
	c.retryWait = c.Retry
	if err := c.prepare(); err != nil {
		return err
	}
	c.queues = newQueues(c.Subscriptions)
	c.outbox = make(chan outgoing, queueLength)
	c.events = make(chan func(), 64) // connections that a callback may sleep through
	s, err := c.connect(ctx, true)
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.session.Store(s)
	for i, q := range c.queues {
		events := c.events
		if i > 0 {
			events = nil
		}
		c.done.Go(func() { c.dispatch(run, q, events) })
	}
	c.done.Go(func() { c.run(run, s) })
	return nil
}

// Close publishes the Will and what is queued, disconnects and waits for the
// callbacks to return.
func (c *Client) Close() {
	if c.cancel == nil {
		return // Initialize failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	last := Publication{}
	if c.Will != nil {
		last = *c.Will
	}
	c.PublishWait(ctx, last) // what it returns changes nothing: we leave either way
	c.cancel()
	c.done.Wait()
}

// Connected tells whether the broker is there now.
func (c *Client) Connected() bool { return c.session.Load() != nil }

// ID returns the client id of the present connection, empty without one.
func (c *Client) ID() string {
	if s := c.session.Load(); s != nil {
		return s.id
	}
	return ""
}

// Dropped counts what a full queue or a lost connection cost: the received
// messages by the name of their queue, those of the queue without a name as
// "messages", and our own as "publications". Call it after Initialize.
func (c *Client) Dropped() map[string]uint64 {
	counts := map[string]uint64{"publications": c.droppedPublications.Load()}
	for _, q := range c.queues {
		counts[cmp.Or(q.name, "messages")] = q.dropped.Load()
	}
	return counts
}

// Publish hands a publication over and never waits. An error says that it was
// dropped; nil does not say that it arrived.
func (c *Client) Publish(p Publication) error { return c.enqueue(outgoing{Publication: p}) }

// PublishWait publishes and waits until the broker has it: until it was
// acknowledged for QoS 1, until it was written for QoS 0.
func (c *Client) PublishWait(ctx context.Context, p Publication) error {
	result := make(chan error, 1)
	if err := c.enqueue(outgoing{p, result}); err != nil {
		return err
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("publish on %s: %w", p.Topic, ctx.Err())
	}
}

func (c *Client) enqueue(o outgoing) error {
	if !c.Connected() {
		c.droppedPublications.Add(1)
		return ErrNotConnected
	}
	select {
	case c.outbox <- o:
		return nil
	default:
		c.droppedPublications.Add(1)
		return ErrQueueFull
	}
}

func (c *Client) prepare() error {
	address, config, err := c.Broker.endpoint()
	if err != nil {
		return err
	}
	password, err := c.Broker.password()
	if err != nil {
		return err
	}
	name := c.Name
	if c.Broker.ClientID != "" {
		name = c.Broker.ClientID
	}
	c.prefix = name[:min(len(name), 12)] + "-"
	c.address = address

	o := mqtt.NewClientOptions().SetProtocolVersion(4).SetCleanSession(true)
	// Connections are ours to make again: paho's own would resend old messages.
	o.SetAutoReconnect(false).SetConnectRetry(false).SetConnectTimeout(dialTimeout)
	o.SetKeepAlive(5 * time.Second).SetPingTimeout(3 * time.Second).SetWriteTimeout(3 * time.Second)
	if c.Broker.Username != "" {
		o.SetUsername(c.Broker.Username).SetPassword(password)
	}
	if w := c.Will; w != nil {
		o.SetBinaryWill(w.Topic, w.Payload, w.QoS, w.Retained)
	}
	o.Servers = []*url.URL{{Scheme: "tcp", Host: address}} // named only; the next line connects
	o.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
		conn, err := dial(address, config)
		if err != nil {
			return nil, err
		}
		return newLimitedConn(conn), nil
	})
	// In order, and never blocking paho's reader: receive only queues.
	o.SetOrderMatters(true).SetDefaultPublishHandler(c.receive)
	c.options = o
	return nil
}

func (c *Client) receive(_ mqtt.Client, m mqtt.Message) {
	queueOf(c.queues, m.Topic()).put(Message{m.Topic(), m.Payload(), m.Retained(), time.Now()})
}

// connect tries until there is a session with its subscriptions, or ctx ends.
func (c *Client) connect(ctx context.Context, first bool) (*session, error) {
	for {
		s, err := c.attempt(ctx)
		if err == nil {
			c.Log.Info("broker connected", "broker", c.address, "client", s.id)
			return s, nil
		}
		if first && permanent(err) {
			return nil, fmt.Errorf("broker %s: %w", c.Broker.URL, err)
		}
		if ctx.Err() == nil {
			c.Log.Warn(fmt.Sprintf("broker %s unreachable: %v; retrying in %v", c.Broker.URL, err, c.retryWait))
		}
		if !c.backOff(ctx) {
			return nil, fmt.Errorf("broker %s unreachable: %w", c.Broker.URL, err)
		}
	}
}

// backOff waits before another attempt, and longer the next time. It returns
// false when ctx ends.
func (c *Client) backOff(ctx context.Context) bool {
	wait := c.retryWait
	c.retryWait = min(2*wait, maxRetryFactor*c.Retry)
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

var (
	errRefused  = errors.New("subscription refused") // by the broker's access rules
	errNoAnswer = errors.New("no answer")
)

func permanent(err error) bool {
	return errors.Is(err, errRefused) || errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword) ||
		errors.Is(err, packets.ErrorRefusedNotAuthorised)
}

func (c *Client) attempt(ctx context.Context) (*session, error) {
	// MQTT 3.1.1 brokers need to accept no more than 23 characters.
	s := &session{lost: make(chan struct{}), id: c.prefix + rand.Text()[:10]}
	options := *c.options
	options.SetClientID(s.id)
	options.SetConnectionLostHandler(func(_ mqtt.Client, err error) {
		s.err = err
		close(s.lost)
	})
	s.mqtt = mqtt.NewClient(&options)
	token := s.mqtt.Connect()
	select {
	case <-token.Done(): // at the latest after dialTimeout
	case <-ctx.Done():
		go s.mqtt.Disconnect(0)
		return nil, errNoAnswer
	}
	if err := token.Error(); err != nil {
		return nil, err
	}
	if err := c.subscribe(s); err != nil {
		s.mqtt.Disconnect(0)
		return nil, err
	}
	s.connectedAt = time.Now()
	return s, nil
}

func (c *Client) subscribe(s *session) error {
	if c.Handle == nil || len(c.Subscriptions) == 0 {
		return nil
	}
	filters := map[string]byte{}
	for _, sub := range c.Subscriptions {
		filters[sub.Filter] = sub.QoS
	}
	token := s.mqtt.SubscribeMultiple(filters, nil).(*mqtt.SubscribeToken)
	if !token.WaitTimeout(dialTimeout) {
		return fmt.Errorf("subscribe: %w", errNoAnswer)
	}
	for filter, granted := range token.Result() {
		if granted > 2 {
			return fmt.Errorf("%w: %s", errRefused, filter)
		}
	}
	if err := token.Error(); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

// run serves one session after another until ctx ends.
func (c *Client) run(ctx context.Context, s *session) {
	for {
		c.notify(ctx, c.OnConnect)
		c.write(ctx, s)
		c.session.Store(nil)
		c.drain()
		if ctx.Err() != nil {
			s.mqtt.Disconnect(250)
			return
		}
		reason := s.err
		c.Log.Warn("broker lost", "broker", c.address, "reason", reason)
		c.notify(ctx, func() {
			if c.OnDisconnect != nil {
				c.OnDisconnect(reason)
			}
		})
		if time.Since(s.connectedAt) > maxRetryFactor*c.Retry {
			c.retryWait = c.Retry
		} else if !c.backOff(ctx) {
			return
		}
		var err error
		if s, err = c.connect(ctx, false); err != nil {
			return
		}
		c.drain() // what was on its way in meanwhile
		c.session.Store(s)
	}
}

// notify has the callbacks' goroutine call f, after what it is at.
func (c *Client) notify(ctx context.Context, f func()) {
	if f == nil {
		return
	}
	select {
	case c.events <- f:
	case <-ctx.Done():
	}
}

// write hands the outbox to the session until it is lost or ctx ends. Only
// this goroutine waits when the broker reads slowly.
func (c *Client) write(ctx context.Context, s *session) {
	for {
		select {
		case o := <-c.outbox:
			c.send(s, o)
		case <-s.lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (c *Client) send(s *session, o outgoing) {
	if o.Topic == "" { // Close's, to know that the queue was written
		o.result <- nil
		return
	}
	token := s.mqtt.Publish(o.Topic, o.QoS, o.Retained, o.Payload)
	if o.result == nil {
		select {
		case <-token.Done(): // QoS 0, or it failed
			if token.Error() != nil {
				c.droppedPublications.Add(1)
			}
		default:
		}
		return
	}
	go func() {
		select {
		case <-token.Done():
			o.result <- token.Error()
		case <-s.lost:
			o.result <- ErrNotConnected
		}
	}()
}

// drain drops what was queued for a session that is gone.
func (c *Client) drain() {
	for {
		select {
		case o := <-c.outbox:
			c.droppedPublications.Add(1)
			if o.result != nil {
				o.result <- ErrNotConnected
			}
		default:
			return
		}
	}
}

// dispatch calls the callbacks of one queue, one at a time. Connections come
// before messages, so that OnDisconnect is not called after what the next
// connection brought.
func (c *Client) dispatch(ctx context.Context, q *queue, events <-chan func()) {
	for {
		select {
		case f := <-events:
			f()
			continue
		default:
		}
		select {
		case f := <-events:
			f()
		case m := <-q.inbox:
			q.bytes.Add(-int64(len(m.Payload)))
			c.Handle(m)
		case <-ctx.Done():
			return
		}
	}
}
