//go:build !unix

package telemetry

// lockFile does nothing where there is no flock: do not share a key there.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
