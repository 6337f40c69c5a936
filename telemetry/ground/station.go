package main

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strings"

	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// stationName is the name of this station: the given one, its certificate's, by which a broker knows
// whose heartbeats to take, its key's, its broker user's, or a random one, since two stations with one
// name could not be told apart.
func (t *tool) stationName() (string, error) {
	certificate, key := "", ""
	if b := t.config.Broker; b.Cert != "" {
		pair, err := telemetry.LoadCertificate(b.Cert, b.Key)
		if err != nil {
			return "", err
		}
		certificate = pair.Leaf.Subject.CommonName
	}
	if t.config.Key != "" {
		key = command.KeyName(t.config.Key)
	}
	name := cmp.Or(t.config.Name, certificate, key, t.config.Broker.Username, "ground-"+strings.ToLower(rand.Text()[:8]))
	if certificate != "" && name != certificate {
		fmt.Fprintf(t.Stderr, "the name %.64q is not its certificate's, %q: a broker that knows stations by certificates drops its "+
			"heartbeats\n", name, certificate)
	}
	if !telemetry.ValidID(name) {
		return "", fmt.Errorf("name of the station: %q, want 1 to 64 of A-Z a-z 0-9 . _ -; -name sets it", name)
	}
	return name, nil
}
