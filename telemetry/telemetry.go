// Package telemetry is the fleet's MQTT side: what the leader, the ground
// users and the ground crew say to each other, and how it travels.
//
// In come payloads from a broker anybody may write to. Each is checked against
// the ranges written beside the fields in messages.go before anyone acts on it;
// what fails is refused with the name of the field, and counted ([Rejects]).
// Out go beacons, decisions, acknowledgements and the status, through a
// [Client] that subscribes again on every connect and never makes a slot wait.
//
// In a slot the package stands at both ends: the [Slot] beacon opens it and
// [Report] messages fill the snapshot; after the policy step each user gets its
// [Decision] and answers with a [Result], and [Status] closes the slot after
// settlement. Commands ([Budget], [Preference], [Mission]) arrive at any time,
// plain or signed ([Verify]), and each is answered by one [Ack]; a station of the
// crew that watches sends a [Heartbeat] once a second. A leader that starts asks for
// another one with [Hello], which answers with a signed [Proof].
//
// asyncapi.yaml describes the same topics and payloads for other languages; a
// test holds the two together.
package telemetry
