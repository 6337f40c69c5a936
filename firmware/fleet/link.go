package fleet

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialect"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/frame"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/clock"
	"prefdt/telemetry"
	"prefdt/telemetry/datagram"
)

const (
	companionComponent = 191 // MAV_COMP_ID_ONBOARD_COMPUTER
	gcsComponent       = 190 // MAV_COMP_ID_MISSIONPLANNER, for messages that are sent to ground stations only
	autopilotComponent = 1   // MAV_COMP_ID_AUTOPILOT1
	gcsSystemID        = 255 // the usual system id of a ground station, which may share the links
)

// OtherComponentReason begins the reason for which frames of an aircraft's other
// components are refused: cameras, gimbals, forwarded messages. Many aircraft have
// them, and nothing is wrong with them.
const OtherComponentReason = "an aircraft's component"

// leaderDialect is the part of the common dialect that the leader uses. The whole
// dialect would add 240 message types to the program; other messages arrive as raw
// frames and are ignored.
var leaderDialect = &dialect.Dialect{
	Version: 3,
	Messages: []message.Message{
		&common.MessageHeartbeat{},
		&common.MessageSysStatus{},
		&common.MessageParamRequestRead{},
		&common.MessageParamValue{},
		&common.MessageGlobalPositionInt{},
		&common.MessageCommandLong{},
		&common.MessageSetPositionTargetGlobalInt{},
		&common.MessageBatteryStatus{},
		&common.MessageExtendedSysState{},
		&common.MessageStatustext{},
		&common.MessageNamedValueFloat{},
		&common.MessageCommandAck{},
	},
}

// endpointLink is one endpoint, with the aircraft that are behind it.
type endpointLink struct {
	fleet           *Fleet
	endpoint        string
	aircraft        []*aircraft
	node            node
	channels        map[*gomavlib.Channel]*byte // open ones, with the sequence number of the next frame
	signatureLinkID byte                        // of the link, in signatures
	refused         string                      // why a frame was last refused for its signature, at refusedS
	refusedS        float64
	unopened        string // why it cannot be opened; empty: it is open, or was not tried
}

// node is the part of gomavlib.Node that is used.
type node interface {
	Events() chan gomavlib.Event
	WriteFrameTo(*gomavlib.Channel, frame.Frame) error
	Close()
}

// ParseEndpoint parses an endpoint of the configuration.
func ParseEndpoint(text string) (gomavlib.EndpointConf, error) {
	bad := fmt.Errorf("endpoint %q: want udp-listen:host:port, udp:host:port or serial:device:baud", text)
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return nil, bad
	}
	switch scheme {
	case "udp", "udp-listen":
		host, port, err := net.SplitHostPort(rest)
		if n, e := strconv.Atoi(port); err != nil || e != nil || n < 1 || n > 65535 || host == "" {
			return nil, bad
		}
		if scheme == "udp" {
			return datagram.Client(nil, rest), nil
		}
		return datagram.Endpoint(nil, rest), nil
	case "serial":
		at := strings.LastIndexByte(rest, ':')
		if at < 1 {
			return nil, bad
		}
		baud, err := strconv.Atoi(rest[at+1:])
		if err != nil || baud < 1200 {
			return nil, bad
		}
		return gomavlib.EndpointSerial{Device: rest[:at], Baud: baud}, nil
	}
	return nil, bad
}

// CheckDevice returns why an endpoint's serial device cannot be opened for reading and writing;
// nil for any other endpoint.
func CheckDevice(endpoint string) error {
	conf, _ := ParseEndpoint(endpoint)
	port, isSerial := conf.(gomavlib.EndpointSerial)
	if !isSerial {
		return nil
	}
	const readAndWrite = 4 | 2
	switch err := syscall.Access(port.Device, readAndWrite); {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w; is this user in the group dialout?", port.Device, err)
	case err != nil:
		return fmt.Errorf("%s: %w", port.Device, err)
	}
	return nil
}

// SilenceHint is what to look at where nothing comes from an endpoint.
func SilenceHint(endpoint string) string {
	scheme, rest, _ := strings.Cut(endpoint, ":")
	switch scheme {
	case "udp-listen":
		_, port, _ := net.SplitHostPort(rest)
		return fmt.Sprintf("its autopilot or radio has to send to UDP port %s of this machine, past any firewall", port)
	case "serial":
		at := max(strings.LastIndexByte(rest, ':'), 0)
		return fmt.Sprintf("see to TX at RX, to the baud rate, and that `fuser %s` shows no other program", rest[:at])
	}
	return fmt.Sprintf("its autopilot or radio has to answer at UDP %s", rest)
}

const (
	openWithin  = time.Second // links that open in this are open once the fleet is started
	reopenAfter = time.Second // after a failure a link is tried again
)

// parse is the link's endpoint; what keeps one that calls from calling is noted.
func (l *endpointLink) parse() (gomavlib.EndpointConf, error) {
	parse := l.fleet.Endpoint
	if parse == nil {
		parse = ParseEndpoint
	}
	conf, err := parse(l.endpoint)
	if c, calls := conf.(gomavlib.EndpointCustomClient); calls {
		connect := c.Connect
		c.Connect = func(ctx context.Context) (net.Conn, error) {
			conn, err := connect(ctx)
			if !errors.Is(ctx.Err(), context.Canceled) { // the link is closed
				l.note(err)
			}
			return conn, err
		}
		return c, err
	}
	return conf, err
}

// open opens the link, and reports whether it is open.
func (l *endpointLink) open() bool {
	conf, err := l.parse()
	if err != nil {
		l.note(err)
		return false
	}
	n := &gomavlib.Node{
		Endpoints:  []gomavlib.EndpointConf{conf},
		Dialect:    leaderDialect,
		InKey:      l.fleet.Key,
		OutKey:     l.fleet.Key, // not used: frames are encoded, and signed, in encode
		OutVersion: gomavlib.V2, OutSystemID: byte(l.fleet.SystemID), OutComponentID: companionComponent,
		HeartbeatDisable: true, // sendHeartbeats sends them, through the gate
	}
	if err := n.Initialize(); err != nil {
		l.note(err)
		return false
	}
	l.node = n
	return true
}

// openingCures say what to do where a link cannot be opened.
var openingCures = map[syscall.Errno]string{
	syscall.EADDRINUSE: "; a leader, a ground station or a MAVLink router may have it, `ss -ulpn` shows which program: end that, or use " +
		"another port",
	syscall.EADDRNOTAVAIL: "; this machine does not have that address now: `ip address` shows those it has, and 0.0.0.0 is all of them",
}

func openingCure(err error) string {
	var number syscall.Errno
	var unknown *net.DNSError
	if errors.As(err, &unknown) && telemetry.LocalName(unknown.Name) {
		return "; " + telemetry.LocalNameHint
	}
	errors.As(err, &number)
	return openingCures[number]
}

// note notes why the link cannot be opened, or, nil, that it is open.
func (l *endpointLink) note(err error) {
	why := ""
	if err != nil {
		why = fmt.Sprintf("open %s: %v%s", l.endpoint, err, openingCure(err))
	}
	l.fleet.mutex.Lock()
	defer l.fleet.mutex.Unlock()
	switch {
	case why == l.unopened:
	case why == "":
		l.fleet.Log.Info("link opened", "endpoint", l.endpoint)
	default:
		l.fleet.Log.Warn("a link cannot be opened, and is tried again", "reason", why)
	}
	l.unopened = why
}

// serve reads the link, which is opened as soon as that is possible, until the fleet is closed.
func (l *endpointLink) serve(tried chan<- struct{}) {
	opened := l.open()
	tried <- struct{}{}
	for !opened {
		select {
		case <-l.fleet.stop:
			return
		case <-l.fleet.Clock.After(reopenAfter):
		}
		if opened = l.open(); opened {
			l.note(nil)
		}
	}
	l.fleet.done.Go(func() {
		<-l.fleet.stop
		l.node.Close()
	})
	l.read()
}

// encode makes a frame: numbered by channel, and signed where there is a key.
func (l *endpointLink) encode(c *gomavlib.Channel, m message.Message) *frame.V2Frame {
	next := l.channels[c]
	if next == nil {
		next = new(byte)
		l.channels[c] = next
	}
	rw := l.fleet.codec.GetMessage(m.GetID())
	fr := &frame.V2Frame{SequenceNumber: *next, SystemID: byte(l.fleet.SystemID), ComponentID: companionComponent,
		Message: rw.Write(m, true)}
	*next++
	if h, ok := m.(*common.MessageHeartbeat); ok && h.Type == common.MAV_TYPE_GCS {
		fr.ComponentID = gcsComponent
	}
	if l.fleet.Key != nil {
		fr.IncompatibilityFlag = frame.V2FlagSigned
	}
	fr.Checksum = fr.GenerateChecksum(rw.CRCExtra())
	if l.fleet.Key != nil {
		fr.SignatureLinkID, fr.SignatureTimestamp = l.signatureLinkID, l.fleet.signatureClock.next()
		fr.Signature = fr.GenerateSignature(l.fleet.Key)
	}
	return fr
}

// read takes every event off the node at once: a slow reader would stall it.
func (l *endpointLink) read() {
	for event := range l.node.Events() {
		l.fleet.mutex.Lock()
		switch e := event.(type) {
		case *gomavlib.EventChannelOpen:
			l.channels[e.Channel] = new(byte)
			l.fleet.linkOpened.Store(true) // it may be seconds from its autopilot's dead man's switch
		case *gomavlib.EventFrame:
			l.route(e)
		case *gomavlib.EventParseError:
			l.refuse(e.Error)
		case *gomavlib.EventChannelClose:
			delete(l.channels, e.Channel)
			for _, a := range l.aircraft {
				if a.channel == e.Channel {
					a.channel = nil
				}
			}
		}
		l.fleet.mutex.Unlock()
	}
}

// signatureRefusals are gomavlib's words (3.3.5) for frames that it refuses for their signature, and the counter's.
var signatureRefusals = map[string]string{
	"wrong signature":                         "wrong signature",
	"signature not present":                   "not signed",
	"signature required but packet is not v2": "not signed",
	"signature timestamp is too old":          "signature too old",
}

// signatureCures say what to do where an aircraft is not received, or does not answer, because of signatures.
var signatureCures = map[string]string{
	"wrong signature": "wrong signature: its link has frames that are signed with another key than that of mavlink.key_file; " +
		"give its autopilot that key",
	"not signed":        "not signed: its link has frames without a signature, and mavlink.key_file is set; give its autopilot that key",
	"signature too old": "signature too old: its link has frames that were signed before others; see that nothing repeats them",
	signedWithoutKey:    signedWithoutKey + "; set mavlink.key_file, or have its autopilot not sign",
}

const signedWithoutKey = "signed, and this leader has no key"

// refuse counts a frame that its reader refused.
func (l *endpointLink) refuse(err error) {
	why := signatureRefusals[err.Error()]
	if why != "" {
		l.refused, l.refusedS = why, l.fleet.nowS()
	}
	l.fleet.rejectFrame(cmp.Or(why, "malformed frame"))
}

// linkTrouble is what is known of why an aircraft is not received, or does not answer, with the cure; empty: nothing is.
// A frame that was refused does not say whose it is: on a link that several share it explains the silence of each.
func (a *aircraft) linkTrouble(now float64) string {
	switch l := a.link; {
	case l == nil:
	case l.unopened != "":
		return l.unopened
	case len(l.channels) == 0 && CheckDevice(l.endpoint) != nil:
		return fmt.Sprintf("open %s: %v", l.endpoint, CheckDevice(l.endpoint))
	case l.refused != "" && now-l.refusedS < forgottenAfterS && !(a.received && now-a.receivedS < staleAfterS):
		return signatureCures[l.refused]
	case a.signedS > 0 && now-a.signedS < forgottenAfterS && !(a.commandable(now) && a.params.Complete()): // else it obeys, all the same
		return signatureCures[signedWithoutKey]
	}
	return ""
}

// route accepts a frame by channel, system and component.
func (l *endpointLink) route(e *gomavlib.EventFrame) {
	f := l.fleet
	system, component := int(e.SystemID()), e.ComponentID()
	if system == f.SystemID && (component == companionComponent || component == gcsComponent) {
		f.rejectFrame("our own echo")
		return
	}
	for _, a := range l.aircraft {
		if a.conf.SystemID != system {
			continue
		}
		if component != autopilotComponent {
			f.rejectFrame(fmt.Sprintf("%s %d", OtherComponentReason, component))
			return
		}
		if h, ok := e.Message().(*common.MessageHeartbeat); ok {
			if why := a.foreignHeartbeat(h); why != "" {
				f.rejectFrame(why)
				return
			}
		}
		now := f.nowS()
		if a.channel != e.Channel {
			if a.channel != nil && now-a.receivedS < staleAfterS {
				f.rejectFrame(fmt.Sprintf("system id %d from two places", system))
				return
			}
			if _, ok := e.Message().(*common.MessageHeartbeat); !ok {
				// A channel is accepted with a HEARTBEAT. It is requested, for it comes
				// only once a second, too long for a leader restarted in flight.
				f.requestMessages(l, e.Channel, a, &common.MessageHeartbeat{}, &common.MessageExtendedSysState{})
				return
			}
			a.channel, a.sequence = e.Channel, sequenceFilter{}
			if !a.received {
				a.batteryStatusS = now // SYS_STATUS counts only if no BATTERY_STATUS comes for a while
			}
		}
		if !a.sequence.accepts(e.Frame.GetSequenceNumber(), now, e.Message(), a.isNewer(e.Message())) {
			f.rejectFrame("out of order")
			return
		}
		if v2, ok := e.Frame.(*frame.V2Frame); ok && f.Key != nil { // its signature was verified
			f.signatureClock.observe(v2.SignatureTimestamp)
		} else if ok && v2.IncompatibilityFlag&frame.V2FlagSigned != 0 { // its autopilot may obey none that are not
			if a.signedS == 0 {
				f.Log.Warn("frames are "+signedWithoutKey, "aircraft", a.number)
			}
			a.signedS = now
		}
		a.handleMessage(f, now, e.Message())
		return
	}
	if system != gcsSystemID {
		f.rejectFrame(fmt.Sprintf("system id %d of no aircraft here", system))
	}
}

// beat sends HEARTBEATs, and reports it, if they may be sent. Else, once a second, each aircraft that is not received is
// asked for its own: that tells no autopilot that a leader lives, but those that send to whom they heard where that is.
func (f *Fleet) beat(now float64) (sent bool) {
	open := false
	for _, l := range f.links {
		open = open || len(l.channels) > 0
	}
	switch {
	case !open:
	case f.mayBeat():
		f.sendHeartbeats()
		return true
	case now-f.knockedS >= 1:
		f.knockedS = now
		for _, l := range f.links {
			for c := range l.channels {
				for _, a := range l.aircraft {
					if a.channel == nil {
						f.send(l, c, a, &common.MessageCommandLong{Command: common.MAV_CMD_REQUEST_MESSAGE,
							Param1: float32((&common.MessageHeartbeat{}).GetID())})
					}
				}
			}
		}
	}
	return false
}

// sendHeartbeats sends the leader's HEARTBEATs: as a companion computer on every link,
// and as a ground station where that is safe: some autopilots send texts to these alone.
//
// Where HEARTBEATs tell an autopilot that its leader lives, they end with the setpoints of a
// loop that stalls, unless it would return through another aircraft.
func (f *Fleet) sendHeartbeats() {
	heartbeat := func(as common.MAV_TYPE) message.Message {
		return &common.MessageHeartbeat{Type: as, Autopilot: common.MAV_AUTOPILOT_INVALID, SystemStatus: common.MAV_STATE_ACTIVE,
			MavlinkVersion: uint8(leaderDialect.Version)}
	}
	for _, l := range f.links {
		for c := range l.channels {
			known, safe, stalled, blocked := false, true, false, false
			for _, a := range l.aircraft {
				if a.channel == c {
					known, safe = true, safe && a.params.kind().ignoresGCSLoss(&a.params)
					stalled, blocked = stalled || a.leaderStalled(), blocked || a.leaderStalled() && !f.returnsClear(a)
				}
			}
			if stalled && !blocked {
				continue
			}
			f.send(l, c, nil, heartbeat(common.MAV_TYPE_ONBOARD_CONTROLLER))
			if known && safe {
				f.send(l, c, nil, heartbeat(common.MAV_TYPE_GCS))
			}
		}
	}
}

// sequenceFilter detects messages that arrive after a later one of their kind. Positions are
// ordered by their time since boot. The others have only MAVLink's sequence number: it has
// eight bits, and rises by one with every frame of a link. Where links were merged, each has
// its own count, so numbers are compared between messages of one kind, which come one way.
type sequenceFilter struct {
	last map[uint32]sequenceHead // by kind of message
	any  sequenceHead            // of all frames, also of those that the leader does not read
}

// sequenceHead is a frame's number, and when it was received.
type sequenceHead struct {
	number    byte
	receivedS float64
}

const (
	// sequenceValidS is how long the number of the last frame can be compared: in a longer
	// silence the sender may have rebooted, or the number wrapped.
	sequenceValidS = 2.0
	sequenceNext   = 8 // a frame that follows another one directly, or a few that were lost
)

// behind is whether a number was counted before the head's.
func (h sequenceHead) behind(number byte, now float64) bool {
	return h.receivedS > 0 && now-h.receivedS < sequenceValidS && int8(number-h.number) < 0
}

// accepts is whether a message is in order. One that is newer by its time since boot shows
// where the count is.
func (s *sequenceFilter) accepts(number byte, now float64, m message.Message, newer bool) bool {
	// On a fast link the number wraps between two messages of a slow kind; but then one that
	// is in time follows the frame before it.
	follows := now-s.any.receivedS < sequenceValidS && number-s.any.number-1 < sequenceNext
	_, position := m.(*common.MessageGlobalPositionInt)
	if newer || !s.any.behind(number, now) {
		s.any = sequenceHead{number, now}
	}
	if _, unread := m.(*message.MessageRaw); position || unread {
		return true
	}
	if s.last[m.GetID()].behind(number, now) && !follows {
		return false
	}
	if s.last == nil {
		s.last = map[uint32]sequenceHead{}
	}
	s.last[m.GetID()] = sequenceHead{number, now}
	return true
}

// isNewer is whether a message is a position later than the last by the autopilot's clock.
func (a *aircraft) isNewer(m message.Message) bool {
	p, ok := m.(*common.MessageGlobalPositionInt)
	return ok && a.located && int32(p.TimeBootMs-uint32(int64(a.bootMS))) > 0
}

// foreignHeartbeat returns why a HEARTBEAT with an aircraft's ids is not its autopilot's, or
// is empty. Other programs send with the vehicle's ids.
func (a *aircraft) foreignHeartbeat(m *common.MessageHeartbeat) string {
	switch {
	case m.Autopilot == common.MAV_AUTOPILOT_INVALID || m.Type == common.MAV_TYPE_GCS:
		return "HEARTBEAT of no autopilot"
	}
	if kind, _ := autopilotOf(m); kind != a.params.autopilot && a.received && a.foreign == "" {
		return "HEARTBEAT of another autopilot"
	}
	return ""
}

// signatureUnit is a signature timestamp's unit, counted from signatureEpoch.
const signatureUnit = 10 * time.Microsecond

var signatureEpoch = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)

// signatureClock issues the timestamps of signatures. A receiver accepts only a greater
// timestamp than the sender's last, and from a new sender none more than a minute
// behind the latest it has received. So timestamps rise strictly, run with the
// monotonic clock, and start from the latest of the wall clock and of the autopilots'
// own timestamps:
//   - a wall clock stepped back changes nothing;
//   - one stepped forward, as when a board without a battery gets the time, is
//     followed;
//   - a leader that starts with a clock that is wrong by years is right from the first
//     frame of an autopilot on: an autopilot's timestamps are not behind those it has
//     accepted. Until then the leader's frames may be refused.
type signatureClock struct {
	clock     clock.Clock
	wall      func() time.Time
	clockBase uint64 // the timestamp when clock was 0
	last      uint64
}

// next returns the timestamp of a new frame.
func (s *signatureClock) next() uint64 {
	s.advanceTo(uint64(max(s.wall().Sub(signatureEpoch), 0) / signatureUnit))
	s.last = max(s.last+1, s.clockBase+s.elapsed())
	return s.last
}

// observe advances the clock to the timestamp of a verified frame.
func (s *signatureClock) observe(timestamp uint64) {
	s.advanceTo(timestamp)
	s.last = max(s.last, timestamp)
}

func (s *signatureClock) advanceTo(timestamp uint64) {
	if now := s.clockBase + s.elapsed(); timestamp > now {
		s.clockBase += timestamp - now
	}
}

func (s *signatureClock) elapsed() uint64 { return uint64(s.clock.Now() / signatureUnit) }

// ReadKey reads a MAVLink 2 signing key: 64 hexadecimal digits on the first
// line of a file. Anything else is an error: a configured key that cannot be used must
// not result in unsigned frames.
func ReadKey(path string) (*frame.V2Key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	raw, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil || len(raw) != 32 {
		return nil, fmt.Errorf("signing key %s: want 64 hexadecimal digits on its first line", path)
	}
	if [32]byte(raw) == ([32]byte{}) {
		return nil, fmt.Errorf("signing key %s: it is all zeros", path)
	}
	return frame.NewV2Key(raw), nil
}
