package leader_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"prefdt/inference/checkpoint"
	"prefdt/telemetry"
)

// newKeyFile writes a new private key, as ground keygen does.
func newKeyFile(t *testing.T) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "leader.key")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(private.Seed())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// publish sends a message as any client.
func publish(c *telemetry.Client, topic string, v any) {
	payload, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	c.Publish(telemetry.Publication{Topic: topic, QoS: 1, Payload: payload})
}

var shipped = sync.OnceValues(func() (*checkpoint.Checkpoint, error) { return checkpoint.Load("../../configs/checkpoint") })

// loadCheckpoint is the shipped checkpoint, which nobody changes.
func loadCheckpoint(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	c, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
