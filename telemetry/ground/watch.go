package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"prefdt/configs/cli"
	"prefdt/telemetry"
)

// event is what reaches the display: a message, or the broker coming or going.
type event struct {
	message         *telemetry.Message
	brokerConnected bool
}

func watch(t *tool) error {
	asJSON := t.Flags.Bool("json", false, "print one JSON object per line instead")
	silent := t.Flags.Bool("silent", false, "only watch: send the leader no heartbeat")
	t.Flags.StringVar(&t.config.Key, "key", t.config.Key, "sign heartbeats with this key `file`")
	t.Flags.StringVar(&t.config.Name, "name", t.config.Name, "`name` of this station in its heartbeats; the key's name, or the broker user's, unless given")
	t.Flags.Var((*seconds)(&t.config.TimeoutS), "timeout", "how `long` to wait for the broker at the start")
	t.Flags.Var((*seconds)(&t.config.StaleS), "stale", "`age` from which a value is shown as stale")
	if _, err := t.parse(0); err != nil {
		return err
	}
	var sign *signer
	station := ""
	if !*silent {
		var err error
		if station, err = t.stationName(); err == nil {
			sign, err = t.loadSigner()
		}
		if err != nil {
			return cli.BadInput(err)
		}
	}
	v := &view{fleet: t.config.Fleet, staleAfter: time.Duration(t.config.StaleS * float64(time.Second)), station: station}
	var show display = &plainLines{t.Stdout, ""}
	if *asJSON {
		show = &jsonLines{json.NewEncoder(t.Stdout)}
	} else if f, ok := t.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		v.colour = os.Getenv("NO_COLOR") == ""
		screen := &screen{f}
		defer screen.close()
		show = screen
	}
	return t.follow(v, show, sign)
}

// follow feeds the display until the user has seen enough. Heartbeats, unless the
// view has no station, do not wait for the display.
func (t *tool) follow(v *view, show display, sign *signer) error {
	log := t.log()
	events := make(chan event, 4096)
	quit := t.ctx.Done()
	rejects := &telemetry.RejectCounter{Log: log}
	tell := func(e event) {
		select {
		case events <- e:
		case <-quit:
		}
	}
	client := &telemetry.Client{Broker: t.config.Broker, Name: "ground", Log: log}
	client.Subscriptions = []telemetry.Subscription{{Filter: t.topics.Status()}, {Filter: t.topics.Online(), QoS: 1}}
	beats := &heartbeatSender{client: client, topic: t.topics.Heartbeat(v.station), signer: sign, log: log}
	client.Handle = func(m telemetry.Message) {
		if m.Topic == t.topics.Status() {
			beats.handleStatus(m)
		}
		select {
		case events <- event{message: &m}:
		default:
			rejects.Add(m.Topic, errDisplayBehind)
		}
	}
	client.OnConnect = func() { tell(event{brokerConnected: true}) }
	client.OnDisconnect = func(error) { tell(event{brokerConnected: false}) }
	ctx, cancel := context.WithTimeout(t.ctx, t.timeout())
	err := client.Initialize(ctx)
	cancel()
	if err != nil {
		if t.ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer client.Close()
	if v.station != "" {
		every := time.NewTicker(heartbeatInterval)
		var beating sync.WaitGroup
		beating.Go(func() { beats.run(t.ctx, every.C) })
		defer beating.Wait() // it says goodbye before Close
		defer every.Stop()
	}
	v.brokerConnected, v.brokerChangedAt = true, time.Now()
	redraw := time.NewTicker(500 * time.Millisecond) // ages grow between messages
	defer redraw.Stop()
	for {
		fresh := false
		select {
		case e := <-events:
			fresh = v.handleEvent(e, t.topics, rejects)
			show.showEvent(v, e, fresh)
		case <-redraw.C:
		case <-quit:
			return nil
		}
		show.draw(v, time.Now())
	}
}

var errDisplayBehind = &telemetry.InvalidError{Kind: "display: behind", Text: "the display is thousands of messages behind, this one is not shown"}

// handleEvent learns from an event, and tells whether it brought a valid message.
func (v *view) handleEvent(e event, topics telemetry.Topics, rejects *telemetry.RejectCounter) bool {
	m := e.message
	if m == nil {
		v.brokerConnected, v.brokerChangedAt = e.brokerConnected, time.Now()
		if !e.brokerConnected {
			v.leaderOnline = nil // whether the leader is still there, the next broker knows
		}
		return false
	}
	var err error
	switch m.Topic {
	case topics.Online():
		var online bool
		if online, err = telemetry.DecodeOnline(m.Payload); err == nil {
			v.leaderOnline = &online
		}
	case topics.Status():
		var s telemetry.Status
		if s, err = telemetry.DecodeStatus(m.Payload); err == nil {
			v.status, v.statusReceived, v.statusRetained = &s, m.Received, m.Retained
		}
	}
	if err != nil {
		rejects.Add(m.Topic, err)
		v.refusedMessages++
	}
	return err == nil
}

// display is one of the three ways to show a fleet.
type display interface {
	showEvent(v *view, e event, valid bool) // something happened
	draw(v *view, now time.Time)            // and time passes
}

func isStatus(e event) bool { return strings.HasSuffix(e.message.Topic, "/status") }

// screen redraws a terminal in place.
type screen struct{ out io.Writer }

func (s *screen) showEvent(*view, event, bool) {}

func (s *screen) draw(v *view, now time.Time) {
	// Home, each line cleared to its end, the rest cleared; the cursor hidden.
	io.WriteString(s.out, "\x1b[?25l\x1b[H"+strings.Join(v.render(now), "\x1b[K\r\n")+"\x1b[K\r\n\x1b[J")
}

func (s *screen) close() { io.WriteString(s.out, "\x1b[?25h") }

// plainLines prints a line for each status, and one when the link is lost or found.
type plainLines struct {
	out       io.Writer
	lastAlarm string // the last one printed, without its age
}

func (p *plainLines) showEvent(v *view, e event, valid bool) {
	if valid && isStatus(e) {
		fmt.Fprintln(p.out, v.slotLine(v.statusReceived))
	}
}

func (p *plainLines) draw(v *view, now time.Time) {
	text := v.alarm(now)
	kind, _, _ := strings.Cut(text, " for ")
	if kind == p.lastAlarm {
		return
	}
	if text == "" {
		text = "LINK BACK"
		if p.lastAlarm == "" {
			text = ""
		}
	}
	p.lastAlarm = kind
	if text != "" {
		fmt.Fprintln(p.out, text)
	}
}

// jsonLines prints what arrives for another program, nothing twice.
type jsonLines struct{ out *json.Encoder }

func (j *jsonLines) showEvent(v *view, e event, valid bool) {
	switch {
	case e.message == nil:
		j.out.Encode(struct {
			Broker bool `json:"broker"`
		}{e.brokerConnected})
	case valid && isStatus(e):
		j.out.Encode(struct {
			Retained bool              `json:"retained"`
			Status   *telemetry.Status `json:"status"`
		}{v.statusRetained, v.status})
	case valid:
		j.out.Encode(struct {
			Online bool `json:"online"`
		}{*v.leaderOnline})
	}
}

func (j *jsonLines) draw(*view, time.Time) {}
