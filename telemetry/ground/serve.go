package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"prefdt/configs/cli"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
	"prefdt/telemetry/ground/serve"
)

// serveConsole serves the web page. Its commands take the way of the command line: the same
// exchange with the same keys, which stay in this process.
func serveConsole(t *tool) error {
	s := &serve.Server{Open: t.host.listen, Links: t.Stdout, Log: t.log(), AreaM: [2]float64{1000, 1000}}
	t.Flags.StringVar(&s.Listen, "listen", "127.0.0.1:8480", "`address` for browsers; any but loopback needs TLS")
	certificate := t.Flags.String("tls-cert", "", "PEM `file` of the page's certificate, whose names browsers may use")
	key := t.Flags.String("tls-key", "", "PEM `file` of its private key")
	hosts := t.Flags.String("host", "", "further `names` with port by which browsers reach it, as in field.example:8480,192.0.2.7:8480")
	area := t.Flags.String("area", "1000,1000", "`metres` east and north that the fence spans from the origin")
	picture := t.Flags.String("picture", "", "`file`,WEST,SOUTH,EAST,NORTH: a PNG or JPEG beneath the map, and metres of its edges")
	replay := t.Flags.String("replay", "", "show a mission that is over: a `file` of the leader's folder missions, or of leader log "+
		"export -json")
	mission := t.Flags.String("mission", "", "`id` of the mission to replay; the file's last unless given")
	fleets := t.Flags.String("fleets", "", "`names` of fleets with commas between them: a list of them, and each its own page")
	silent := t.Flags.Bool("silent", false, "only watch: no page commands, and no heartbeat is sent")
	t.Flags.StringVar(&t.config.Key, "key", t.config.Key, "sign with these key `files`, commas between them: one operator each")
	t.Flags.StringVar(&t.config.Name, "name", t.config.Name,
		"`name` of this station in its heartbeats; its certificate's, the first key's, or the broker user's, unless given")
	t.Flags.Var((*seconds)(&t.config.TimeoutS), "timeout", "how `long` to wait for the broker at the start")
	t.Flags.Var((*seconds)(&t.config.StaleS), "stale", "`age` from which a value is shown as lost")
	if _, err := t.parse(0); err != nil {
		return err
	}
	s.Fleet, s.StaleAfter = t.config.Fleet, t.stale()
	if *hosts != "" {
		s.Hosts = strings.Split(*hosts, ",")
	}
	var err error
	if *certificate != "" || *key != "" {
		if s.Certificate, err = telemetry.LoadCertificate(*certificate, *key); err != nil {
			return cli.BadInputf("-tls-cert %q and -tls-key %q: %w", *certificate, *key, err)
		}
	}
	if side, ok := parseMetres(*area, 2); ok {
		s.AreaM = [2]float64(side)
	} else {
		return cli.BadInputf("-area %q: want metres east and north, as in 1000,1000", *area)
	}
	if s.Picture, err = readPicture(*picture); err != nil {
		return cli.BadInput(err)
	}
	if *replay != "" {
		return t.serveReplay(s, *replay, *mission)
	}
	if err := t.nameFleets(s, *fleets); err != nil {
		return cli.BadInput(err)
	}
	// What users send is before neither a status nor an answer: it comes over a connection of its own.
	users := &telemetry.Client{Broker: t.config.Broker, Name: "ground-users", Log: t.log(), MaxPayload: telemetry.MaxPayload,
		FloodWindow: 50 * time.Millisecond}
	desk := command.NewDesk(t.config.Broker, nil, t.log())
	pages := s.Fleets
	if len(pages) == 0 {
		pages = []*serve.Server{s}
	}
	var stations []*station
	for _, f := range pages {
		if f.Leader, err = command.NewLeader(t.config.LeaderKeys, f.Fleet); err != nil {
			return cli.BadInput(err)
		}
		ofLeader, ofUsers, err := f.Subscriptions()
		if err != nil {
			return cli.BadInput(err)
		}
		desk.Client.Subscriptions, users.Subscriptions = append(desk.Client.Subscriptions, ofLeader...),
			append(users.Subscriptions, ofUsers...)
		if *silent {
			continue
		}
		own, err := t.addOperators(f, desk)
		if err != nil {
			return cli.BadInput(err)
		}
		stations = append(stations, own...)
	}
	if len(s.Fleets) > 0 { // the same keys for each: a link is good for all
		for _, o := range pages[0].Operators {
			s.Operators = append(s.Operators, &serve.Operator{Name: o.Name})
		}
	}
	if err := s.Check(); err != nil {
		return cli.BadInput(err)
	}
	rejects := &telemetry.RejectCounter{Log: t.log()}
	users.Handle = func(m telemetry.Message) {
		for _, f := range pages {
			if err := f.Handle(m); err != nil {
				rejects.Add(m.Topic, err)
			}
		}
	}
	desk.Client.Handle = func(m telemetry.Message) {
		for _, x := range stations {
			if m.Topic == x.statusTopic {
				x.HandleStatus(m)
			}
		}
		desk.HandleMessage(m)
		users.Handle(m)
	}
	connected := func(yes bool) {
		for _, f := range pages {
			f.Connected(yes)
		}
	}
	desk.Client.OnConnect = func() { connected(true) }
	desk.Client.OnDisconnect = func(error) { connected(false) }
	if err := s.Initialize(); err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.ctx, t.timeout())
	defer cancel()
	for _, c := range []*telemetry.Client{users, desk.Client} {
		if err := c.Initialize(ctx); err != nil {
			if t.ctx.Err() != nil {
				return nil
			}
			return err
		}
		defer c.Close()
	}
	s.Start()
	<-t.ctx.Done()
	s.Close() // before the clients: it may withdraw
	return nil
}

// nameFleets makes s a list of the fleets that are named, each with a page like s.
func (t *tool) nameFleets(s *serve.Server, names string) error {
	if names == "" {
		return nil
	}
	for _, name := range []string{"fleet", "picture"} {
		if t.Given(name) {
			return fmt.Errorf("-%s with -fleets: it is of one fleet", name)
		}
	}
	for name := range strings.SplitSeq(names, ",") {
		f := &serve.Server{Fleet: strings.TrimSpace(name), AreaM: s.AreaM, StaleAfter: s.StaleAfter, Log: s.Log}
		s.Fleets = append(s.Fleets, f)
	}
	return nil
}

// serveReplay shows a flown mission. It connects to no broker: nothing of it can be mistaken
// for a station of the crew.
func (t *tool) serveReplay(s *serve.Server, path, mission string) error {
	for _, name := range []string{"key", "name", "broker", "silent", "fleets"} {
		if t.Given(name) {
			return cli.BadInputf("-%s with -replay: a replay sends and receives nothing", name)
		}
	}
	flights, err := readFlights(path, mission)
	if err != nil {
		return cli.BadInput(err)
	}
	s.Replay = &flights[len(flights)-1]
	if p := s.Replay.Place; p != nil {
		s.Fleet = p.Fleet
		if !t.Given("area") {
			s.AreaM = p.AreaM
		}
	}
	if err := s.Check(); err != nil {
		return cli.BadInput(err)
	}
	if err := s.Initialize(); err != nil {
		return err
	}
	s.Start()
	<-t.ctx.Done()
	s.Close()
	return nil
}

// station is an operator's place in the crew: heartbeats that are sent when a page is alive,
// and not by a timer.
type station struct {
	command.Heartbeats
	statusTopic string // of its fleet
	beats       chan time.Time
	leave       func() // nil: it does not watch
}

func (x *station) heartbeat(leaving bool) {
	switch {
	case leaving && x.leave != nil:
		x.leave()
		x.leave = nil
	case leaving:
	case x.leave == nil:
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { x.Run(ctx, x.beats); close(done) }() // the first at once
		x.leave = func() { cancel(); <-done }
	default:
		select {
		case x.beats <- time.Time{}:
		default: // the one before is on its way
		}
	}
}

// addOperators gives a fleet's page an operator for each key, or without keys a single one that
// does not sign.
func (t *tool) addOperators(f *serve.Server, desk *command.Desk) (stations []*station, err error) {
	topics, err := telemetry.NewTopics(f.Fleet)
	if err != nil {
		return nil, err
	}
	desk.Client.Subscriptions = append(desk.Client.Subscriptions, telemetry.Subscription{Filter: topics.AllAcks(), QoS: 1})
	paths := strings.Split(t.config.Key, ",")
	first := *t
	first.config.Key = paths[0]
	name, err := first.stationName()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		signer, err := command.NewSigner(path)
		if err != nil {
			return nil, err
		}
		x := &station{
			Heartbeats: command.Heartbeats{Client: desk.Client, Topic: topics.Heartbeat(name), Signer: signer, Leader: f.Leader,
				StaleAfter: f.StaleAfter, Log: t.log()},
			statusTopic: topics.Status(), beats: make(chan time.Time, 1),
		}
		o := &serve.Operator{Heartbeat: x.heartbeat}
		if signer != nil {
			o.Name = signer.Name
		}
		o.Send = func(ctx context.Context, r command.Request, belowFloor bool) (telemetry.Ack, error) {
			x := &command.Exchange{Request: r, Topics: topics, Signer: signer, Leader: f.Leader, BelowFloor: belowFloor}
			if err := x.Initialize(); err != nil {
				return telemetry.Ack{}, err
			}
			return desk.Send(ctx, x)
		}
		f.Operators, stations = append(f.Operators, o), append(stations, x)
	}
	return stations, nil
}

// parseMetres reads n numbers with commas between them.
func parseMetres(text string, n int) (list []float64, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(math.Abs(x) <= 1e6) { // nor NaN
			return nil, false
		}
		list = append(list, x)
	}
	return list, len(list) == n
}

// readPicture reads the picture that FILE,WEST,SOUTH,EAST,NORTH names; nil without one.
func readPicture(text string) (*serve.Picture, error) {
	if text == "" {
		return nil, nil
	}
	path, edges, _ := strings.Cut(text, ",")
	at, ok := parseMetres(edges, 4)
	if !ok || at[0] >= at[2] || at[1] >= at[3] {
		return nil, fmt.Errorf("-picture %q: want FILE,WEST,SOUTH,EAST,NORTH with metres from the origin", text)
	}
	types := map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
	kind := types[strings.ToLower(filepath.Ext(path))]
	if kind == "" {
		return nil, errors.New("-picture: want a .png or .jpg file")
	}
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-picture: %w", err)
	}
	return &serve.Picture{Image: image, Type: kind, AtM: [4]float64(at)}, nil
}
