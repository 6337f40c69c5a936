package judge

// linkRules are of what arrives at the aircraft.
var linkRules = []Rule{}
