package kafka

import (
	"fmt"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// The mechanisms of SASL that Mechanism makes.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Mechanisms lists them.
var Mechanisms = []string{Plain, ScramSHA256, ScramSHA512}

// Mechanism returns the SASL mechanism of a name, with a username and a password. PLAIN sends the
// password as it is: it is for encrypted connections. It fails for a name that is not in
// Mechanisms.
func Mechanism(name, username, password string) (sasl.Mechanism, error) {
	switch name {
	case Plain:
		return plain.Mechanism{Username: username, Password: password}, nil
	case ScramSHA256:
		return scram.Mechanism(scram.SHA256, username, password)
	case ScramSHA512:
		return scram.Mechanism(scram.SHA512, username, password)
	}
	return nil, fmt.Errorf("kafka: mechanism %q is not %s", name, strings.Join(Mechanisms, ", "))
}
