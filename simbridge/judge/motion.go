package judge

// motionRules are of where aircraft fly and land.
var motionRules = []Rule{}
