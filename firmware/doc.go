// Leader flies a mission: slot by slot it receives users' tasks over MQTT, decides with
// a frozen policy, and commands users and autopilots, within a budget of joules. The
// loop is in package leader; read leader/slot.go first. This package has the command
// line, the wiring and the exit statuses.
package main
