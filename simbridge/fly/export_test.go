package fly

// For the tests that compare a flight with its rollouts, which this package cannot import.
var (
	RealConfig  = realConfig
	FreeAddress = freeAddress
)
