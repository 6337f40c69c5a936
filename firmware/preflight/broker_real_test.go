//go:build real

package preflight_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/configs/mosquitto/mosquittotest"
	"prefdt/firmware/preflight"
	"prefdt/simbridge/rig"
)

// What the leader will publish is tried on the real broker: one that refuses it is found on the ground, and not by a leader that
// connects again and again.
func TestCheckOfBrokersThatRefuse(t *testing.T) {
	for name, c := range map[string]struct{ lines, acl, result, says string }{
		"fine": {"", "topic readwrite #\n", preflight.ResultOK, "carries 5900 bytes, the longest status\nkeeps retained messages\n"},
		"small packets": {"max_packet_size 600\n", "", preflight.ResultFail,
			"does not carry 5900 bytes, which a status of 1 aircraft may take"},
		"small messages":   {"message_size_limit 600\n", "", preflight.ResultFail, "message_size_limit to 8192, max_packet_size to 8704"},
		"nothing retained": {"retain_available false\n", "", preflight.ResultFail, "keeps no retained message"},
		"statuses not allowed": {"", "topic readwrite #\ntopic deny prefdt/test/status\n", preflight.ResultFail,
			"publishes on prefdt/test/status does not"},
		"answers not allowed": {"", "topic read #\n", preflight.ResultFail, "publishes on prefdt/test/ack/+ does not come back"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rig.NewRealTime(t, 1, 100, 100)
			dir, address := mosquittotest.Dir(t), ""
			mosquittotest.Start(t, dir, func(port func() string) string {
				number := port()
				address = "127.0.0.1:" + number
				text := "listener " + number + " 127.0.0.1\nuser root\nallow_anonymous true\nset_tcp_nodelay true\n" + c.lines
				if c.acl != "" {
					acl := filepath.Join(dir, "acl")
					os.WriteFile(acl, []byte(c.acl), 0o644)
					text += "acl_file " + acl + "\n"
				}
				return text
			})
			_, results, details := runCheck(t, r, r.WriteConfig("broker: {url: \"tcp://"+address+"\"}"), "1s")
			if results["broker"] != c.result || !strings.Contains(details["broker"], c.says) {
				t.Errorf("%s: %s", results["broker"], details["broker"])
			}
		})
	}
}
