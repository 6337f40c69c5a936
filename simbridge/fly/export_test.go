package fly

// For the test that compares a flight with its rollouts, which this package cannot import.
var (
	FlightInMemory = flightInMemory
	Program        = program
)
