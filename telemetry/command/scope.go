package command

import "prefdt/telemetry"

// ScopeText is what the joules of a scope count, in words that every display has: those of a
// slot's settlement, or those from take-off to touchdown.
func ScopeText(scope string) string {
	if scope == telemetry.ScopeLanded {
		return "to touchdown"
	}
	return "in slots"
}

// TransitText is whether a scope counts the joules of transit too.
func TransitText(scope string) string {
	if scope == telemetry.ScopeLanded {
		return "included"
	}
	return "outside slots"
}

// spentJ is what the fleet of a status spent in a scope, which may be another than the status's own.
func spentJ(s *telemetry.Status, scope string) float64 {
	switch own := s.Scope == telemetry.ScopeLanded; {
	case own == (scope == telemetry.ScopeLanded):
		return s.SpentJ
	case own:
		return max(s.SpentJ-s.TransitJ, 0)
	}
	return s.SpentJ + s.TransitJ
}
