package telemetry

import (
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"
)

// While many reports fill their queue and its callback blocks, commands are delivered
// and none is dropped. With one queue for both they would follow the reports, or be
// dropped with them.
func TestReportsDoNotDelayCommands(t *testing.T) {
	eachBroker(t, func(t *testing.T, start startBroker) {
		address, _ := start(t, brokerSetup{})
		topics, err := NewTopics("f1")
		if err != nil {
			t.Fatal(err)
		}
		entered, release := make(chan bool, 1), make(chan bool)
		reports, commands := make(chan string, queueLength), make(chan string, 10)
		c := &Client{Broker: Broker{URL: "tcp://" + address}, Name: "leader", Subscriptions: []Subscription{
			{Filter: topics.Online(), QoS: 1}, {Filter: topics.AllReports(), QoS: 1, Queue: "reports"}, {Filter: topics.AllCommands(), QoS: 1, Queue: "commands"},
		}}
		c.Handle = func(m Message) {
			if kind, _, _ := topics.Parse(m.Topic); kind == KindReport {
				select {
				case entered <- true:
				default:
				}
				<-release
				reports <- strings.TrimSpace(string(m.Payload))
				return
			}
			commands <- string(m.Payload)
		}
		connectClient(t, c)
		t.Cleanup(func() { // before Close, also of a test that failed
			select {
			case <-release:
			default:
				close(release)
			}
		})
		others := &Client{Broker: Broker{URL: "tcp://" + address}, Name: "others"}
		connectClient(t, others)
		report := func(i int) {
			padded := strconv.Itoa(i) + strings.Repeat(" ", MaxPayload-len(strconv.Itoa(i)))
			publish(t, others, Publication{Topic: topics.Report("u1"), QoS: 1, Payload: []byte(padded)})
		}
		report(0)
		nextEvent(t, "first report", entered) // it waits in Handle
		const fit, tooMany = queueBytes / MaxPayload, 43
		for i := 1; i <= fit+tooMany; i++ {
			report(i)
		}
		for _, id := range []string{"hold", "stop"} {
			publish(t, others, Publication{Topic: topics.Mission(), QoS: 1, Payload: []byte(id)})
			if got := nextEvent(t, "command", commands); got != id {
				t.Errorf("command %s, want %s", got, id)
			}
		}
		if len(reports) > 0 {
			t.Errorf("%d reports were handled before the commands", len(reports))
		}
		want := map[string]uint64{"reports": tooMany, "commands": 0, "messages": 0, "publications": 0}
		if got := c.Dropped(); !maps.Equal(got, want) { // the broker keeps the order: the reports precede the commands
			t.Errorf("dropped %v, want %v", got, want)
		}
		close(release)
		for i := range 1 + fit {
			if got := nextEvent(t, "report", reports); got != strconv.Itoa(i) {
				t.Fatalf("report %s, want %d", got, i)
			}
		}
		const next = 1 + fit + tooMany
		report(next)
		if got := nextEvent(t, "next report", reports); got != strconv.Itoa(next) {
			t.Errorf("report %s was counted as dropped, and delivered", got)
		}
	})
}

func TestFilterMatches(t *testing.T) {
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"prefdt/f1/slot", "prefdt/f1/slot", true},
		{"prefdt/f1/slot", "prefdt/f1/slots", false},
		{"prefdt/f1/slot", "prefdt/f1/slot/x", false},
		{"prefdt/f1/slot/x", "prefdt/f1/slot", false},
		{"prefdt/f1/users/+/report", "prefdt/f1/users/u1/report", true},
		{"prefdt/f1/users/+/report", "prefdt/f1/users//report", true},
		{"prefdt/f1/users/+/report", "prefdt/f1/users/u1/result", false},
		{"prefdt/f1/users/+/report", "prefdt/f1/users/a/b/report", false},
		{"prefdt/f1/command/+", "prefdt/f1/command/stop", true},
		{"prefdt/f1/command/+", "prefdt/f1/command", false},
		{"prefdt/f1/#", "prefdt/f1/users/u1/report", true},
		{"prefdt/f1/#", "prefdt/f1", true},
		{"prefdt/f1/#", "prefdt/f2", false},
		{"#", "prefdt/f1", true},
		{"+", "prefdt", true},
		{"+", "prefdt/f1", false},
	} {
		if got := matches(c.filter, c.topic); got != c.want {
			t.Errorf("%s covers %s: %v", c.filter, c.topic, got)
		}
	}
}

// A message waits until it was handled, in its own queue.
func TestWaiting(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	c := &Client{queues: newQueues([]Subscription{{Filter: "users/+", Queue: "reports"}}), Handle: func(Message) {
		begun <- true
		<-end
	}}
	q := queueOf(c.queues, "users/u1")
	go c.dispatch(t.Context(), q)
	if c.Waiting("reports") {
		t.Error("one waits before any has come")
	}
	q.put(Message{Topic: "users/u1", Payload: []byte("{}")})
	<-begun
	if !c.Waiting("reports") || c.Waiting("") || c.Waiting("others") {
		t.Error("while one is handled, it does not wait, or elsewhere")
	}
	end <- true
	for deadline := time.Now().Add(time.Minute); c.Waiting("reports"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it waits when it was handled")
		}
	}
}
