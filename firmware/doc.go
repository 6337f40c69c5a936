// Leader flies a mission: it receives users' tasks over MQTT, decides with a
// frozen policy, and commands users and autopilots, slot by slot, within a budget
// of joules. What it does is in package leader; read leader/slot.go first. This
// package is flags, wiring and exit codes.
package main
