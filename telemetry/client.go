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

// Client is one program's connection to the broker. It reconnects until it is
// closed: each connection is a clean session with a client id of its own that
// subscribes again and calls OnConnect. With one id for all, a broker that detects
// late that the old connection is lost may end the new one in its place.
// What is published while there is no connection is dropped, since a beacon or
// decision of a past slot would mislead.
//
// A leader uses two, one after the other: the first without a Will, to find out
// whether another leader is online, and after closing that one, its own.
type Client struct {
	Broker Broker
	Name   string        // of the program, the start of the client id unless Broker.ClientID is set
	Will   *Publication  // what the broker publishes when the connection is lost; Close publishes it too
	Retry  time.Duration // before the second attempt to connect; it doubles up to maxRetryFactor times as much; 0: 250 ms
	Log    *slog.Logger  // nil: slog.Default

	Subscriptions []Subscription // filters must not overlap, or a message is delivered once for each
	MaxPayload    int            // of what is received: a longer payload is cut to a byte more; 0: MaxStatus
	// FloodWindow is for messages of many who may flood: of each topic the newest alone waits for
	// Handle, in the place of the first, and no more than maxBurst are read in so long. 0: no limit.
	FloodWindow time.Duration

	// The callbacks run on one goroutine of the client and must not be changed after
	// Initialize. A callback may publish, and block; meanwhile messages queue up, and are
	// dropped and counted when that queue is full. It must not call Close. Messages that
	// others must neither delay nor displace, in the broker either, have a client of their own.
	Handle       func(Message) // nil: nothing is subscribed to
	OnConnect    func()        // after the subscriptions of each connection; publishes what is retained
	OnDisconnect func(error)   // after a connection was lost

	prefix    string // of the client ids
	address   string
	retryWait time.Duration // before the next attempt; used by the goroutine that connects
	outage    outage        // likewise
	refusals  refusals      // likewise
	options   *mqtt.ClientOptions
	cancel    context.CancelFunc
	done      sync.WaitGroup
	session   atomic.Pointer[session] // nil while not connected

	clockWarned atomic.Bool

	inbox               *queue        // from the broker, to the callbacks
	events              chan func()   // OnConnect and OnDisconnect
	outbox              chan outgoing // from Publish, to the broker
	droppedPublications atomic.Uint64
	flooded             atomic.Uint64 // messages of a topic that had maxBurst before
}

// Subscription is a topic filter with the highest quality of service of its messages.
type Subscription struct {
	Filter string
	QoS    byte
}

// Message is a received publication.
type Message struct {
	Topic    string
	Payload  []byte
	Retained bool      // was published before the subscription
	Received time.Time // with Go's monotonic clock
}

// Publication is a message to publish.
type Publication struct {
	Topic    string
	QoS      byte
	Retained bool
	Payload  []byte
}

// maxRetryFactor times Retry is the longest wait between attempts to connect. A
// connection that lasts for less does not end the outage.
const maxRetryFactor = 8

// warningInterval is between two warnings of one outage. An outage begins with the
// loss of a connection that lasted, or with the first attempt that fails.
const warningInterval = 30 * time.Second

// outage limits the warnings while the broker is unreachable.
type outage struct {
	interval time.Duration
	warnedAt time.Time // zero: not in this outage
}

// warningDue reports whether to warn now, and counts on the warning being logged.
func (o *outage) warningDue(now time.Time) bool {
	if !o.warnedAt.IsZero() && now.Sub(o.warnedAt) < o.interval {
		return false
	}
	o.warnedAt = now
	return true
}

var (
	ErrNotConnected = errors.New("broker not connected")
	ErrQueueFull    = errors.New("the broker reads messages too slowly")
)

// session is one connection.
type session struct {
	mqtt        mqtt.Client
	id          string
	connectedAt time.Time
	lost        chan struct{} // closed when the connection is lost
	err         error         // why; set before lost is closed
	largest     largest       // of what was published; of the goroutine that writes
}

// largest is the largest publication of a session.
type largest struct {
	bytes    int
	retained bool // of that, or an earlier one
	at       time.Time
}

func (x *largest) add(p *Publication) {
	if len(p.Payload) > x.bytes {
		x.bytes, x.at = len(p.Payload), time.Now()
	}
	x.retained = x.retained || p.Retained
}

// refusals finds a broker that ends each connection for what is published on it, which a client that connects again publishes again:
// twice in a row the connection was lost within refusedWithin of its largest publication.
type refusals struct{ inARow int }

const refusedWithin = time.Second

// add adds a session that was lost, and returns why, empty if it is not known.
func (r *refusals) add(x largest) string {
	if x.bytes == 0 || time.Since(x.at) > refusedWithin {
		r.inARow = 0
		return ""
	}
	if r.inARow++; r.inARow < 2 {
		return ""
	}
	why := fmt.Sprintf("the broker ends each connection within a second of a message of %d bytes: it may not accept so many (mosquitto: "+
		"max_packet_size, message_size_limit)", x.bytes)
	if x.retained {
		why += ", or no retained messages (retain_available)"
	}
	return why
}

type outgoing struct {
	Publication
	result chan<- error // receives nil or the reason that it was not sent; nil: not wanted
}

// Initialize connects to the broker and returns once the subscriptions stand and
// OnConnect is queued. An unreachable broker is tried again until ctx ends, with a
// line in the log at the first failure and every [warningInterval] after it; one
// that refuses the credentials or a subscription is an error at once. ctx has no
// effect afterwards.
func (c *Client) Initialize(ctx context.Context) error {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Retry = cmp.Or(c.Retry, 250*time.Millisecond)
	c.outage.interval = cmp.Or(c.outage.interval, warningInterval)
	c.retryWait = c.Retry
	if err := c.prepare(); err != nil {
		return err
	}
	c.inbox, c.events = newQueue(c.FloodWindow > 0), make(chan func(), 64) // connections and losses during one callback
	c.outbox = make(chan outgoing, queueLength)
	s, err := c.connect(ctx, true)
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.session.Store(s)
	c.done.Go(func() { c.dispatch(run) })
	c.done.Go(func() { c.run(run, s) })
	return nil
}

// Close publishes the queue and then the Will, disconnects and waits for the
// callbacks to return.
func (c *Client) Close() {
	if c.cancel == nil {
		return // Initialize failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.PublishWait(ctx, *cmp.Or(c.Will, &Publication{})) // the client disconnects whatever it returns
	c.cancel()
	c.done.Wait()
}

// Connected reports whether there is a connection now.
func (c *Client) Connected() bool { return c.session.Load() != nil }

// Dropped counts what was lost to a full queue, a lost connection or a flood of
// the same topic. Call it after Initialize.
func (c *Client) Dropped() (d Dropped) {
	d.Messages, d.Replaced = c.inbox.counts()
	d.Replaced += c.flooded.Load()
	d.Publications = c.droppedPublications.Load()
	return d
}

// Dropped are counts of messages received and not handled, those that others of the
// topic replaced, and publications not sent.
type Dropped struct{ Messages, Replaced, Publications uint64 }

// Waiting is whether messages were received that Handle has not handled yet. Call it after
// Initialize.
func (c *Client) Waiting() bool { return c.inbox.unhandled() }

// Publish queues a publication and never blocks. An error means that it was dropped;
// nil does not mean that it was delivered.
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
	name := cmp.Or(c.Broker.ClientID, c.Name)
	c.prefix = name[:min(len(name), 12)] + "-"
	c.address = address

	o := mqtt.NewClientOptions().SetProtocolVersion(4).SetCleanSession(true)
	// This client reconnects by itself: paho's reconnect would resend old messages.
	o.SetAutoReconnect(false).SetConnectRetry(false).SetConnectTimeout(dialTimeout)
	o.SetKeepAlive(5 * time.Second).SetPingTimeout(3 * time.Second).SetWriteTimeout(writeTimeout)
	if c.Broker.Username != "" {
		o.SetUsername(c.Broker.Username).SetPassword(password)
	}
	if w := c.Will; w != nil {
		o.SetBinaryWill(w.Topic, w.Payload, w.QoS, w.Retained)
	}
	o.Servers = []*url.URL{{Scheme: "tcp", Host: address}} // named only; the next line connects
	o.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
		conn, behind, err := c.Broker.dial(address, config)
		if err != nil {
			return nil, err
		}
		if !behind.IsZero() && c.clockWarned.CompareAndSwap(false, true) {
			c.Log.Warn(fmt.Sprintf("this machine's clock is behind: it says %s, and the broker's certificate begins on %s, which is taken "+
				"for the time; set the clock", formatDate(time.Now()), formatDate(behind)))
		}
		return newLimitedConn(newBatchConn(conn), cmp.Or(c.MaxPayload, MaxStatus), c.FloodWindow, &c.flooded), nil
	})
	// In order, and without blocking paho's reader: receive only queues.
	o.SetOrderMatters(true).SetDefaultPublishHandler(c.receive)
	c.options = o
	return nil
}

func (c *Client) receive(_ mqtt.Client, m mqtt.Message) {
	if c.FloodWindow > 0 && len(m.Payload()) == 0 {
		return // cut by limitedConn; paho acknowledges it
	}
	c.inbox.put(Message{m.Topic(), m.Payload(), m.Retained(), time.Now()})
}

// connect retries until there is a session with its subscriptions, or ctx ends.
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
		err = explained(err, c.Will != nil && c.Will.Retained)
		if ctx.Err() == nil && c.outage.warningDue(time.Now()) {
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
	// An MQTT 3.1.1 broker need not accept more than 23 characters.
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
		lasted := time.Since(s.connectedAt) > maxRetryFactor*c.Retry
		if lasted {
			c.outage.warnedAt = time.Time{}
		}
		refused := c.refusals.add(s.largest)
		if c.refusals.inARow == 2 {
			c.outage.warnedAt = time.Time{} // it is another thing than what was warned of
		}
		if c.outage.warningDue(time.Now()) {
			c.Log.Warn("broker lost", "broker", c.address, "reason", lostBecause(reason, refused))
		}
		if c.OnDisconnect != nil {
			c.notify(ctx, func() { c.OnDisconnect(reason) })
		}
		if lasted {
			c.retryWait = c.Retry
		} else if !c.backOff(ctx) {
			return
		}
		var err error
		if s, err = c.connect(ctx, false); err != nil {
			return
		}
		c.drain() // what was queued meanwhile
		c.session.Store(s)
	}
}

func lostBecause(reason error, refused string) error {
	if refused == "" {
		return reason
	}
	return fmt.Errorf("%v; %s", reason, refused)
}

// notify has the callbacks' goroutine call f, after what it runs now.
func (c *Client) notify(ctx context.Context, f func()) {
	if f == nil {
		return
	}
	select {
	case c.events <- f:
	case <-ctx.Done():
	}
}

// write sends the outbox through the session until it is lost or ctx ends. Only
// this goroutine blocks when the broker reads slowly.
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
	if o.Topic == "" { // from Close without a Will, which waits for the queue
		o.result <- nil
		return
	}
	s.largest.add(&o.Publication)
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

// drain drops what was queued for a session that is lost.
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

// dispatch calls the callbacks, one at a time. Events have priority over messages, so
// that OnDisconnect is not called after the first messages of the next connection.
func (c *Client) dispatch(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case f := <-c.events:
			f()
			continue
		default:
		}
		if m := c.inbox.take(); m != nil {
			c.Handle(*m)
			continue
		}
		select {
		case f := <-c.events:
			f()
		case <-c.inbox.ready:
		case <-ctx.Done():
		}
	}
}
