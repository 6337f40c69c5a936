// Leader flies a mission: it hears users over MQTT, decides with a frozen
// policy, and tells users and autopilots, slot by slot, within a budget of
// joules. The slot itself is in slot.go; read that first.
//
// In come reports, results and commands (broker.go), and what the autopilots
// measure (package fleet). Out go a beacon, decisions and a status each slot,
// setpoints ten times a slot, and one durable transaction (package ledger).
//
// One goroutine owns the mission: the loop in leader.go. Whatever arrives is
// checked where it arrives and handed to it.
package main
