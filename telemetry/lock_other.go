//go:build !unix

package telemetry

// lockFile does nothing on systems without flock, where programs must not share a key.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
