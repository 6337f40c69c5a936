package judge

// wireRules are of what users and crew are told.
var wireRules = []Rule{}
