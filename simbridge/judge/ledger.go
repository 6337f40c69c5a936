package judge

// ledgerRules are of what is written, and of the whole flight.
var ledgerRules = []Rule{}
