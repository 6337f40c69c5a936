//go:build real

package leader_test

import (
	"bufio"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/configs/mosquitto/mosquittotest"
	"prefdt/simbridge/rig"
)

// receivedLine is one message as mosquitto_sub printed it.
type receivedLine struct {
	topic, qos, retained, payload string
	fields                        map[string]any // of a JSON object
}

// independentClients are clients written from the wire contract (docs/wire.md) alone:
// mosquitto's own programs and JSON written by hand, with no code of this repository.
type independentClients struct {
	t    *testing.T
	port string

	mutex      sync.Mutex
	received   []receivedLine
	arrived    chan struct{}
	publishers map[string]io.Writer // mosquitto_pub by topic and quality of service
	onMessage  func(receivedLine)   // users, at each message
}

func newIndependentClients(t *testing.T) *independentClients {
	mosquittotest.Program(t, "mosquitto_pub")
	mosquittotest.Program(t, "mosquitto_sub")
	s := &independentClients{t: t, arrived: make(chan struct{}, 1), publishers: map[string]io.Writer{}}
	mosquittotest.Start(t, mosquittotest.Dir(t), func(port func() string) string {
		s.port = port()
		return "listener " + s.port + " 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n"
	})
	_, lines := s.start("mosquitto_sub", "-p", s.port, "-q", "1", "-t", "prefdt/test/#", "-F", `%t\t%q\t%r\t%p`)
	go s.listen(lines)
	return s
}

// start runs a program until the test ends.
func (s *independentClients) start(name string, arguments ...string) (io.Writer, *bufio.Scanner) {
	s.t.Helper()
	c := exec.Command(name, arguments...)
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := c.Start(); err != nil || err1 != nil || err2 != nil {
		s.t.Fatal(name, err, err1, err2)
	}
	s.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return in, bufio.NewScanner(out)
}

func (s *independentClients) listen(lines *bufio.Scanner) {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), "\t", 4)
		if len(parts) < 4 {
			continue
		}
		h := receivedLine{topic: strings.TrimPrefix(parts[0], "prefdt/test/"), qos: parts[1], retained: parts[2], payload: parts[3]}
		json.Unmarshal([]byte(h.payload), &h.fields)
		s.mutex.Lock()
		s.received = append(s.received, h)
		on := s.onMessage
		s.mutex.Unlock()
		if on != nil {
			on(h)
		}
		select {
		case s.arrived <- struct{}{}:
		default:
		}
	}
}

// publish publishes one line; each topic has a mosquitto_pub of its own.
func (s *independentClients) publish(qos, topic, payload string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := qos + topic
	if s.publishers[key] == nil {
		s.publishers[key], _ = s.start("mosquitto_pub", "--nodelay", "-p", s.port, "-q", qos, "-t", "prefdt/test/"+topic, "-l")
	}
	fmt.Fprintln(s.publishers[key], payload)
}

// receivedOn returns what was received on a topic.
func (s *independentClients) receivedOn(topic string) (found []receivedLine) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, h := range s.received {
		if h.topic == topic {
			found = append(found, h)
		}
	}
	return found
}

// await waits for a message on a topic that satisfies a condition.
func (s *independentClients) await(topic, what string, ok func(receivedLine) bool) receivedLine {
	s.t.Helper()
	late := time.After(10 * time.Minute)
	for {
		received := s.receivedOn(topic)
		for _, h := range slices.Backward(received) {
			if ok(h) {
				return h
			}
		}
		select {
		case <-s.arrived:
		case <-late:
			if len(received) > 0 {
				received = received[len(received)-1:]
			}
			s.t.Fatalf("%s: no %s; the last is %v", topic, what, received)
		}
	}
}

func anyLine(receivedLine) bool { return true }

// command sends a command and returns its acknowledgement's fields.
func (s *independentClients) command(command, payload, id string) map[string]any {
	s.t.Helper()
	before := len(s.receivedOn("ack/" + id))
	s.publish("1", "command/"+command, payload)
	s.await("ack/"+id, "acknowledgement of "+payload, func(receivedLine) bool { return len(s.receivedOn("ack/"+id)) > before })
	h := s.receivedOn("ack/" + id)[before]
	if h.qos != "1" || h.retained != "0" || h.fields["id"] != id {
		s.t.Errorf("acknowledged with %+v", h)
	}
	return h.fields
}

func keysOf(m map[string]any) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

// userReports are users by name, and what each reports in a slot.
func userReports(n int) map[string][]string {
	task := `"task":{"bits":1.1e6,"cycles_per_bit":1000,"deadline_s":0.9}`
	return map[string][]string{
		"whole": {fmt.Sprintf(`{"slot":%d,"position_m":[312.0,444.5],%s,"queue_bits":0,"cpu_hz":1e9,"gain":{"1":3.2e-9,"2":8.8e-11}}`,
			n, task)},
		"no-gain": {fmt.Sprintf(`{"slot": %d, "position_m": [700, 500], %s, "queue_bits": 0, "cpu_hz": 1e9, "firmware": {"v": [1, 2]}}`,
			n, task)},
		"some-gain": {fmt.Sprintf(`{"slot":%d.0,"position_m":[500,500],%s,"queue_bits":2.5e5,"cpu_hz":5e8,"gain":{"2":1e-9}}`, n, task)},
		"idle":      {fmt.Sprintf(`{"slot":%d,"position_m":[1,2],"queue_bits":0,"cpu_hz":1e9}`, n)},
		"idle-null": {fmt.Sprintf(`{"slot":%d,"position_m":[1,2],"task":null,"queue_bits":0,"cpu_hz":1e9,"gain":null}`, n)},
		// One valid report counts, the first or, of those still queued, the newest: a bad one before it does not.
		"twice": {`{"slot":`, fmt.Sprintf(`{"slot":%d,"position_m":[300,500],%s,"queue_bits":0,"cpu_hz":1e9}`, n, task),
			fmt.Sprintf(`{"slot":%d,"position_m":[310,500],%s,"queue_bits":0,"cpu_hz":1e9}`, n, task)},
		"late":  {fmt.Sprintf(`{"slot":%d,"position_m":[300,500],%s,"queue_bits":0,"cpu_hz":1e9}`, n-1, task)},
		"early": {fmt.Sprintf(`{"slot":%d,"position_m":[300,500],%s,"queue_bits":0,"cpu_hz":1e9}`, n+1, task)},
		"wrong": {fmt.Sprintf(`{"slot":%d,"position_m":[300,500],%s,"queue_bits":0,"cpu_hz":-1}`, n, task)},
	}
}

// missionSlots are of half a second, and programs that publish have most of it.
const missionSlots = 20

// usersWithDecision are the users above that get a decision, each slot.
var usersWithDecision = []string{"no-gain", "some-gain", "twice", "whole"}

// A mission with users and crew written from the wire contract alone: topics,
// qualities of service, retained flags, fields, acknowledgements, signatures, and
// what is refused or ignored.
func TestWireContractWithIndependentClients(t *testing.T) {
	s := newIndependentClients(t) // not beside flights that compute: its leader, in this process, has slots of half a real second
	r := rig.NewRealTime(t, 2, missionSlots, 500)
	r.Config.ReportByMS, r.Config.DecideByMS = 350, 450
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Config.Broker.URL = "tcp://127.0.0.1:" + s.port
	r.Config.Commands.Keys = map[string]string{"crew-1": base64.StdEncoding.EncodeToString(public)}
	s.onMessage = func(h receivedLine) {
		if h.topic == "slot" && h.fields != nil {
			for user, lines := range userReports(int(h.fields["slot"].(float64))) {
				for _, line := range lines {
					s.publish("0", "users/"+user+"/report", line)
				}
			}
		}
		if user, ok := strings.CutSuffix(h.topic, "/decision"); ok && h.fields != nil {
			s.publish("1", user+"/result", fmt.Sprintf(`{"slot":%v,"completion_s":0.21,"by":"decision"}`, h.fields["slot"]))
		}
	}
	for user := range userReports(0) { // their programs are up before the first slot
		s.publish("0", "users/"+user+"/report", "{}")
	}
	f := r.StartLeader()

	// online and status.
	s.await("online", "true", func(h receivedLine) bool { return h.payload == "true" && h.qos == "1" })
	idle := s.await("status", "status", anyLine)
	want := "aircraft budget_j challenge dangers decision_ms energy_source floor_j last_command missed_slots mission mission_s mode " +
		"predicted_end_j refuses remaining_j saturated seq setting slot slots spent_j state transit_j users_heard"
	if keysOf(idle.fields) != want || idle.qos != "0" {
		t.Errorf("status has %s, QoS %s", keysOf(idle.fields), idle.qos)
	}
	aircraft := idle.fields["aircraft"].([]any)
	if len(aircraft) != 2 {
		t.Errorf("aircraft are %v", aircraft)
	}
	for _, a := range aircraft {
		// The first status may come before an aircraft's first HEARTBEAT or after it.
		fields := a.(map[string]any)
		for _, k := range []string{"autopilot", "duty", "role"} {
			delete(fields, k)
		}
		if keysOf(fields) != "age_s battery energy_source landed mode number position_m reason speed_mps spent_j system_id" {
			t.Errorf("an aircraft is %v", a)
		}
	}
	for topic, flags := range map[string]string{"online": "1 1", "status": "1 0"} {
		out, err := exec.Command("mosquitto_sub", "-p", s.port, "-q", "1", "-C", "1", "-W", "60", "-t", "prefdt/test/"+topic, "-F",
			"%r %q").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != flags {
			t.Errorf("%s is kept as %q, %v; want %q", topic, out, err, flags)
		}
	}

	// Signed: Ed25519 over the version, topic, key, challenge, counter and body. A
	// clock's nanoseconds count.
	counter := time.Now().UnixNano()
	challenge := func() string {
		hasOne := func(h receivedLine) bool { return h.fields["challenge"] != nil }
		return s.await("status", "challenge", hasOne).fields["challenge"].(string)
	}
	// published waits for a status with the challenge of a refusal: each may be the first
	// to have a new one.
	published := func(of any) bool {
		s.await("status", fmt.Sprintf("challenge %v", of), func(h receivedLine) bool { return of != nil && h.fields["challenge"] == of })
		return true
	}
	envelope := func(command, body, challenge string, counter int64) string {
		text := fmt.Sprintf("prefdt-command-2\nprefdt/test/command/%s\ncrew-1\n%s\n%d\n%s", command, challenge, counter, body)
		quoted, _ := json.Marshal(body)
		return fmt.Sprintf(`{"key":"crew-1","counter":%d,"challenge":"%s","body":%s,"signature":"%s"}`, counter, challenge, quoted,
			base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(text))))
	}
	sign := func(command, body string) string {
		counter++
		return envelope(command, body, challenge(), counter)
	}
	// ask signs a command and, where its challenge is not the present one any more,
	// signs it once more with the challenge of the refusal.
	ask := func(command, body, id string) map[string]any {
		t.Helper()
		a := s.command(command, sign(command, body), id)
		if fresh, stale := a["challenge"].(string); stale {
			counter = max(counter, int64(a["last_counter"].(float64))) + 1
			a = s.command(command, envelope(command, body, fresh, counter), id)
		}
		return a
	}

	// Commands: refused, saturated, repeated.
	if a := ask("mission", `{"id":"early","action":"hold"}`, "early"); a["accepted"] != false ||
		a["reason"] != "cannot hold: the mission is idle, which accepts start, clear, new" || a["key"] != "crew-1" {
		t.Errorf("hold when idle: %v", a)
	}
	if a := ask("budget", `{"id":"b0","energy_j":9,"mode":"ceiling","from":"me"}`, "b0"); a["accepted"] != true || a["saturated"] != true ||
		!(a["floor_j"].(float64) > 9) || a["effective_slot"] != 0.0 || a["energy_j"] != 9.0 || a["mode"] != "ceiling" {
		t.Errorf("a budget below the floor: %v", a)
	}
	first := ask("budget", `{"id":"b1","energy_j":36000,"mode":"target"}`, "b1")
	again := ask("budget", `{"id":"b1","energy_j":36000,"mode":"target"}`, "b1")
	delete(first, "of")
	delete(again, "of")
	if first["accepted"] != true || first["saturated"] != false || fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("b1: %v, repeated %v", first, again)
	}
	if a := ask("budget", `{"id":"b1","energy_j":50000,"mode":"ceiling"}`, "b1"); a["accepted"] != false ||
		!strings.Contains(fmt.Sprint(a["reason"]), "b1") {
		t.Errorf("b1 with another body: %v", a)
	}
	if a := ask("budget", `{"id":"b2","energy_j":37000,"mode":"target","replaces_j":45000}`, "b2"); a["accepted"] != false ||
		!strings.Contains(fmt.Sprint(a["reason"]), "36 kJ") {
		t.Errorf("in place of another total than that in force: %v", a)
	}
	for id, c := range map[string][3]string{
		"x1": {"budget", `{"id":"x1","energy_j":1e300,"mode":"target"}`, "energy_j"},
		"x2": {"budget", `{"id":"x2","energy_j":-1,"mode":"target"}`, "energy_j"},
		"x3": {"budget", `{"id":"x3","energy_j":400000,"mode":"target"}`, "energy_j"}, // more than M x E_max
		"x4": {"budget", `{"id":"x4","energy_j":36000}`, "mode"},
		"x5": {"budget", `{"id":"x5","energy_j":36000,"mode":"most"}`, "mode"},
		"x6": {"preference", `{"id":"x6","setting":2}`, "setting"},
		"x7": {"mission", `{"id":"x7","action":"land"}`, "action"},
		"x8": {"budget", `{"id":"x8","energy_j":1e999,"mode":"target"}`, "energy_j"},
		"x9": {"mission", `{"id":"x9","action":"clear"}`, "aircraft"},
	} {
		if a := ask(c[0], c[1], id); a["accepted"] != false || !strings.Contains(fmt.Sprint(a["reason"]), c[2]) {
			t.Errorf("%s: %v", c[1], a)
		}
	}
	for _, body := range []string{`{"id":"n1","energy_j":NaN,"mode":"target"}`, `{"energy_j":36000,"mode":"target"}`,
		`{"id":"a b","energy_j":36000,"mode":"target"}`, `[]`, `nonsense`} {
		s.publish("1", "command/budget", sign("budget", body)) // no answer to any
		s.publish("1", "command/budget", body)
	}
	if a := ask("preference", `{"id":"p1","setting":0.35}`, "p1"); a["accepted"] != true || a["setting"] != 0.35 ||
		a["effective_slot"] != 0.0 {
		t.Errorf("a signed preference: %v", a)
	}
	// What an attacker sends: a used counter, an old challenge, another body than was
	// signed, no signature.
	time.Sleep(1100 * time.Millisecond) // refusals that the ledger does not have come once a second, by the leader's clock
	if a := s.command("preference", envelope("preference", `{"id":"p2","setting":0.9}`, challenge(), counter),
		"p2"); a["accepted"] != false || !published(a["challenge"]) || a["last_counter"] != float64(counter) {
		t.Errorf("with a used counter: %v, want counter %d", a, counter)
	}
	time.Sleep(1100 * time.Millisecond)
	if a := s.command("preference", envelope("preference", `{"id":"p3","setting":0.9}`, "AAAAAAAAAAAAAAAAAAAAAA", counter+9),
		"p3"); a["accepted"] != false || !published(a["challenge"]) {
		t.Errorf("over another challenge: %v", a)
	}
	if a := s.command("preference", strings.Replace(sign("preference", `{"id":"p4","setting":0.8}`), "0.8", "0.7", 1),
		"p4"); a["accepted"] != false || a["key"] != nil || a["challenge"] != nil {
		t.Errorf("not what was signed: %v", a)
	}
	time.Sleep(1100 * time.Millisecond)
	if a := s.command("preference", `{"id":"p5","setting":0.8}`, "p5"); a["accepted"] != false {
		t.Errorf("unsigned: %v", a)
	}
	s.await("status", "cleared budget", func(h receivedLine) bool {
		setting, _ := h.fields["setting"].(float64)
		last, _ := h.fields["last_command"].(map[string]any)
		return h.fields["budget_j"] == nil && setting > 0.349 && setting < 0.351 && last["id"] == "p1" && last["key"] == "crew-1"
	})

	// The mission, as soon as the autopilots are ready.
	for i := 0; ; i++ {
		id := fmt.Sprintf("start-%d", i)
		a := ask("mission", fmt.Sprintf(`{"id":%q,"action":"start"}`, id), id)
		if a["accepted"] == true {
			break
		}
		if i > 200 {
			t.Fatalf("start: %v", a)
		}
		seq := s.receivedOn("status")
		s.await("status", "another second", func(receivedLine) bool { return len(s.receivedOn("status")) > len(seq) })
	}
	s.await("slot", "slot 3", func(h receivedLine) bool { return h.fields["slot"].(float64) >= 3 })
	if a := ask("mission", `{"id":"h1","action":"hold"}`, "h1"); a["accepted"] != true {
		t.Errorf("hold: %v", a)
	}
	held := s.await("status", "hold", func(h receivedLine) bool { return h.fields["state"] == "holding" })
	s.await("slot", "beacon on hold", func(h receivedLine) bool {
		return h.fields["slot"].(float64) > held.fields["slot"].(float64)+2
	})
	if a := ask("mission", `{"id":"h1","action":"hold"}`, "h1"); a["accepted"] != true {
		t.Errorf("h1 again: %v", a)
	}
	if a := ask("mission", `{"id":"r1","action":"resume"}`, "r1"); a["accepted"] != true {
		t.Errorf("resume: %v", a)
	}
	s.await("status", "done", func(h receivedLine) bool { return h.fields["state"] == "done" })
	if last := s.await("slot", "beacon", anyLine); last.fields["slot"] != missionSlots-1.0 {
		t.Errorf("the last beacon is %v", last)
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	s.await("online", "false", func(h receivedLine) bool { return h.payload == "false" && h.qos == "1" })

	s.checkSlots()
	for _, id := range []string{"n1"} {
		if received := s.receivedOn("ack/" + id); len(received) > 0 {
			t.Errorf("%s was answered: %v", id, received)
		}
	}
	if n := len(s.receivedOn("ack/h1")); n != 2 {
		t.Errorf("h1 was answered %d times, asked twice", n)
	}
}

// checkSlots looks back on the slots: beacons, decisions and statuses.
func (s *independentClients) checkSlots() {
	t := s.t
	last := -1.0
	for _, h := range s.receivedOn("slot") {
		n := h.fields["slot"].(float64)
		if keysOf(h.fields) != "decide_by_ms offer report_by_ms slot slot_ms speed" || n <= last || h.qos != "0" || h.retained != "0" ||
			h.fields["speed"] != 2.0 {
			t.Errorf("beacon after %v: %+v", last, h)
		}
		last = n
		for _, a := range h.fields["offer"].(map[string]any)["aircraft"].([]any) {
			if keysOf(a.(map[string]any)) != "cpu_hz expected_users number position_m" {
				t.Errorf("offer: %v", a)
			}
		}
	}
	sent := map[string]map[any]bool{} // by user and slot
	for user := range userReports(0) {
		received := s.receivedOn("users/" + user + "/decision")
		if !slices.Contains(usersWithDecision, user) {
			if len(received) > 0 {
				t.Errorf("%s was sent %v", user, received[0])
			}
			continue
		}
		slots := map[any]bool{}
		for _, h := range received {
			d := h.fields
			delete(d, "report_slot")
			local := d["aircraft"] == 0.0
			if keysOf(d) != "aircraft cpu_hz offload slot" || h.qos != "1" || h.retained != "0" || slots[d["slot"]] ||
				local != (d["offload"] == 0.0) || !local && !(d["cpu_hz"].(float64) > 0) {
				t.Errorf("%s was sent %+v", user, h)
			}
			slots[d["slot"]] = true
		}
		sent[user] = slots
	}
	seq, six := -1.0, 0
	for _, h := range s.receivedOn("status") {
		n := h.fields["seq"].(float64)
		if n <= seq {
			t.Errorf("status %v follows %v", n, seq)
		}
		seq = n
		if h.fields["users_heard"] == 6.0 { // those with a decision, and two idle ones
			six++
			for _, user := range usersWithDecision {
				if !sent[user][h.fields["slot"]] {
					t.Errorf("%s reported in slot %v and got no decision", user, h.fields["slot"])
				}
			}
		} else if h.fields["users_heard"].(float64) > 6 {
			t.Errorf("%v users reported", h.fields["users_heard"])
		}
	}
	if six == 0 {
		t.Error("in no slot all six users were received")
	}
}
