//go:build !unix

package telemetry

// lock does nothing where there is no flock: do not share a key there.
func lock(string) (unlock func(), err error) { return func() {}, nil }
