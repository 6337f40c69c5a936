// Package telemetry defines the MQTT messages between the leader, the ground users
// and the ground crew, and the client that carries them.
//
// Inputs: payloads from a broker to which untrusted clients may publish. Each is
// checked against the ranges beside the fields in messages.go before it is used; an
// invalid one is rejected with the name of the field, and counted ([RejectCounter]).
//
// Outputs: beacons, decisions, acknowledgements and the status, through a [Client]
// that subscribes again on every connection and never makes a slot wait.
//
// Callers: the leader (firmware/link, firmware/crew), the crew's tool
// (telemetry/ground) and the simulated users, crew and observers of simbridge.
//
// In a slot, the [Slot] beacon opens it and [Report] messages arrive; after the policy
// step each user receives its [Decision] and answers with a [Result], and [Status]
// follows the settlement. Commands ([Budget], [Preference], [Mission]) arrive at any
// time, plain or signed ([Verify]), and each is answered by one [Ack]; a crew station
// that watches sends a [Heartbeat] once a second. A leader that starts sends [Hello]; a
// leader that flies the fleet already answers with a signed [Proof].
//
// asyncapi.yaml describes the same topics and payloads for other languages, a test
// compares the two. docs/wire.md describes the protocol.
package telemetry
