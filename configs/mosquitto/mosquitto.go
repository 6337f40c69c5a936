// Package mosquitto has a mosquitto configuration for a broker on a network, which the
// tests run with the real mosquitto if it is installed. The Debian package ships the files
// as examples.
package mosquitto

import _ "embed"

// ACL is the file acl, for the fleet "demo" and one of its crew.
//
//go:embed acl
var ACL string
