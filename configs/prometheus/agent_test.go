package prometheus

import (
	"net"
	"net/url"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"prefdt/configs"
	"prefdt/firmware/config"
)

// agent has every key that the example has: a key that Prometheus does not know would be a typing
// mistake here first.
type agent struct {
	Global struct {
		ScrapeInterval string            `yaml:"scrape_interval"`
		ScrapeTimeout  string            `yaml:"scrape_timeout"`
		ExternalLabels map[string]string `yaml:"external_labels"`
	} `yaml:"global"`
	ScrapeConfigs []struct {
		JobName       string `yaml:"job_name"`
		StaticConfigs []struct {
			Targets []string `yaml:"targets"`
		} `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
	RemoteWrite []struct {
		URL           string            `yaml:"url"`
		RemoteTimeout string            `yaml:"remote_timeout"`
		TLSConfig     map[string]string `yaml:"tls_config"`
		QueueConfig   map[string]any    `yaml:"queue_config"`
	} `yaml:"remote_write"`
}

// The agent reads where a leader can publish, on loopback, and writes over TLS; its times are
// in order. Prometheus's own check runs where it is installed.
func TestAgent(t *testing.T) {
	var a agent
	if err := configs.Load("agent.yml", &a); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(a.ScrapeConfigs[0].StaticConfigs[0].Targets[0])
	if err != nil || host != "127.0.0.1" {
		t.Errorf("the agent reads %s, %v", host, err)
	}
	c := config.Defaults()
	c.Aircraft = []config.Aircraft{{SystemID: 1, Endpoint: "udp-listen:127.0.0.1:14540"}}
	if c.MetricsPort, err = strconv.Atoi(port); err != nil || c.Check() != nil {
		t.Errorf("port %s, %v, %v", port, err, c.Check())
	}
	interval, err := time.ParseDuration(a.Global.ScrapeInterval)
	timeout, err2 := time.ParseDuration(a.Global.ScrapeTimeout)
	if err != nil || err2 != nil || timeout >= interval {
		t.Errorf("every %v, within %v", interval, timeout)
	}
	if u, err := url.Parse(a.RemoteWrite[0].URL); err != nil || u.Scheme != "https" || len(a.RemoteWrite[0].TLSConfig) != 3 ||
		a.Global.ExternalLabels["fleet"] == "" {
		t.Errorf("%+v, %v", a.RemoteWrite, err)
	}
	if tool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.Command(tool, "check", "config", "--agent", "--syntax-only", "agent.yml").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}
