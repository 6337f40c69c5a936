package main

import (
	"cmp"
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
	"prefdt/telemetry/command"
)

// event is an input of the display: a message, or the connection made or lost.
type event struct {
	message         *telemetry.Message
	brokerConnected bool
}

func watch(t *tool) error {
	asJSON := t.Flags.Bool("json", false, "print one JSON object per line instead")
	silent := t.Flags.Bool("silent", false, "only watch: send the leader no heartbeat")
	t.Flags.StringVar(&t.config.Key, "key", t.config.Key, "sign heartbeats with this key `file`")
	t.Flags.StringVar(&t.config.Name, "name", t.config.Name,
		"`name` of this station in its heartbeats; its certificate's, the key's, or the broker user's, unless given")
	t.Flags.Var((*seconds)(&t.config.TimeoutS), "timeout", "how `long` to wait for the broker at the start")
	t.Flags.Var((*seconds)(&t.config.StaleS), "stale", "`age` from which a value is shown as stale")
	if _, err := t.parse(0); err != nil {
		return err
	}
	var signer *command.Signer
	station := ""
	if !*silent {
		var err error
		if station, err = t.stationName(); err == nil {
			signer, err = command.NewSigner(t.config.Key)
		}
		if err != nil {
			return cli.BadInput(err)
		}
	}
	v := &view{Link: command.Link{StaleAfter: t.stale()}, fleet: t.config.Fleet, station: station}
	var err error
	if v.leader, err = command.NewLeader(t.config.LeaderKeys, t.config.Fleet); err != nil {
		return cli.BadInput(err)
	}
	show := printLines(t.Stdout)
	if *asJSON {
		show = printJSON(t.Stdout)
	} else if f, ok := t.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		v.colour = os.Getenv("NO_COLOR") == ""
		draw, end := redraw(f, func() (columns, rows int) {
			columns, rows, _ = term.GetSize(int(f.Fd())) // 0 and 0 if it has no size
			return columns, rows
		})
		defer end()
		show = draw
	}
	return t.follow(v, show, signer)
}

// follow updates the display until the user ends it. Heartbeats, which are sent unless
// the view has no station, do not wait for the display.
func (t *tool) follow(v *view, show display, signer *command.Signer) error {
	log := t.log()
	events := make(chan event, 4096)
	quit := t.ctx.Done()
	rejects := &telemetry.RejectCounter{Log: log}
	enqueue := func(e event) {
		select {
		case events <- e:
		case <-quit:
		}
	}
	client := &telemetry.Client{Broker: t.config.Broker, Name: "ground", Log: log}
	client.Subscriptions = []telemetry.Subscription{{Filter: t.topics.Status()}, {Filter: t.topics.Online(), QoS: 1}}
	heartbeats := &command.Heartbeats{Client: client, Topic: t.topics.Heartbeat(v.station), Signer: signer, Leader: v.leader, Log: log,
		StaleAfter: v.StaleAfter}
	client.Handle = func(m telemetry.Message) {
		if m.Topic == t.topics.Status() {
			heartbeats.HandleStatus(m)
		}
		select {
		case events <- event{message: &m}:
		default:
			rejects.Add(m.Topic, errDisplayBehind)
		}
	}
	client.OnConnect = func() { enqueue(event{brokerConnected: true}) }
	client.OnDisconnect = func(error) { enqueue(event{brokerConnected: false}) }
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
		every := time.NewTicker(command.HeartbeatInterval)
		var sending sync.WaitGroup
		sending.Go(func() { heartbeats.Run(t.ctx, every.C) })
		defer sending.Wait() // the last heartbeat is sent before Close
		defer every.Stop()
	}
	v.SetBroker(true, time.Now())
	ages := time.NewTicker(500 * time.Millisecond) // they grow between messages
	defer ages.Stop()
	for {
		var last *event
		valid := false
		select {
		case e := <-events:
			last, valid = &e, v.handleEvent(e, t.topics, rejects)
		case <-ages.C:
		case <-quit:
			return nil
		}
		show(v, last, valid, time.Now())
	}
}

var errDisplayBehind = &telemetry.InvalidError{Kind: "display: behind",
	Text: "the display is thousands of messages behind, this one is not shown"}

// handleEvent updates the view, and reports whether the event was a valid, new message.
func (v *view) handleEvent(e event, topics telemetry.Topics, rejects *telemetry.RejectCounter) bool {
	m := e.message
	if m == nil {
		v.SetBroker(e.brokerConnected, time.Now())
		return false
	}
	var err error
	switch m.Topic {
	case topics.Online():
		var online bool
		if online, err = telemetry.DecodeOnline(m.Payload); err == nil {
			v.Online = &online
		}
	case topics.Status():
		var s telemetry.Status
		if s, err = v.leader.Status(*m); err == nil {
			return v.Take(&s, *m)
		}
	}
	if err != nil {
		rejects.Add(m.Topic, err)
		v.refusedMessages++
	}
	return err == nil
}

// display is a way to show a fleet: after each event, and twice a second without one.
// valid is whether the event was a valid, new message.
type display func(v *view, e *event, valid bool, now time.Time)

func isStatus(e *event) bool { return strings.HasSuffix(e.message.Topic, "/status") }

// redraw redraws a terminal in place, of the size that it has each time, without its
// cursor, until end shows that again.
func redraw(out io.Writer, size func() (columns, rows int)) (draw display, end func()) {
	draw = func(v *view, _ *event, _ bool, now time.Time) {
		columns, rows := size()
		// Cursor hidden and home, each line cleared to its end, the rest cleared.
		io.WriteString(out, "\x1b[?25l\x1b[H"+strings.Join(v.render(now, columns, rows), "\x1b[K\r\n")+"\x1b[K\r\n\x1b[J")
	}
	return draw, func() { io.WriteString(out, "\x1b[?25h") }
}

// printLines prints a line for each status, with its dangers, and one when the link is lost or back, and when what an aircraft
// does changes.
func printLines(out io.Writer) display {
	lastAlarm := ""              // as printed last, without its age
	aircraft := map[int]string{} // as printed last, by number
	return func(v *view, e *event, valid bool, now time.Time) {
		if valid && isStatus(e) {
			fmt.Fprintln(out, v.slotLine(v.Received))
			for i := range v.Status.Aircraft {
				a := &v.Status.Aircraft[i]
				if text := v.aircraftState(a); text != aircraft[a.Number] {
					aircraft[a.Number] = text
					fmt.Fprintln(out, text)
				}
			}
		}
		text := v.alarm(now)
		if kind, _, _ := strings.Cut(text, " for "); kind != lastAlarm {
			lastAlarm = kind
			fmt.Fprintln(out, cmp.Or(text, "LINK BACK"))
		}
	}
}

// printJSON prints each event once, for another program.
func printJSON(out io.Writer) display {
	lines := json.NewEncoder(out)
	return func(v *view, e *event, valid bool, _ time.Time) {
		switch {
		case e == nil:
		case e.message == nil:
			lines.Encode(map[string]any{"broker": e.brokerConnected})
		case valid && isStatus(e):
			lines.Encode(map[string]any{"retained": v.Retained, "status": v.Status})
		case valid:
			lines.Encode(map[string]any{"online": *v.Online})
		}
	}
}
