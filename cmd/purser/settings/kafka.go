package settings

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/sasl"

	"purser/persistence/kafka"
)

// kafkaConfig is the connection to Kafka. Without brokers the server uses no Kafka.
type kafkaConfig struct {
	Brokers []string
	TLS     *tls.Config    // nil: plain TCP
	SASL    sasl.Mechanism // nil: Kafka does not ask who this is
}

// TopicOptions returns the options of a topic on these brokers.
func (c kafkaConfig) TopicOptions() kafka.Options {
	return kafka.Options{Brokers: c.Brokers, TLS: c.TLS, SASL: c.SASL}
}

// ReadKafka reads the settings KAFKA_*. The faults are added to f.
func (f *Faults) ReadKafka(s Settings) kafkaConfig {
	c := kafkaConfig{Brokers: f.brokers(s.KafkaBrokers)}
	encrypted := f.OneOf("KAFKA_TLS", s.KafkaTLS, "true", "false") == "true"
	c.TLS = f.kafkaTLS(s, encrypted)
	c.SASL = f.kafkaSASL(s, encrypted, c.Brokers)
	return c
}

// kafkaTLS reads the files of certificates and keys. A connection reads this program's own
// certificate anew, so that a renewed one needs no start.
func (f *Faults) kafkaTLS(s Settings, encrypted bool) *tls.Config {
	for _, setting := range [][2]string{{"KAFKA_TLS_CA", s.KafkaTLSCA}, {"KAFKA_TLS_CERT", s.KafkaTLSCert},
		{"KAFKA_TLS_KEY", s.KafkaTLSKey}} {
		if setting[1] != "" && !encrypted {
			f.Add(setting[0], "needs KAFKA_TLS=true")
		}
	}
	if !encrypted {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.KafkaTLSCA != "" {
		var err error
		if config.RootCAs, err = ReadAuthorities(s.KafkaTLSCA); err != nil {
			f.Add("KAFKA_TLS_CA", "%v", err)
		}
	}
	switch {
	case s.KafkaTLSCert == "" && s.KafkaTLSKey == "":
		return config
	case s.KafkaTLSCert == "":
		f.Add("KAFKA_TLS_CERT", "is missing beside KAFKA_TLS_KEY")
	case s.KafkaTLSKey == "":
		f.Add("KAFKA_TLS_KEY", "is missing beside KAFKA_TLS_CERT")
	default:
		if _, err := tls.LoadX509KeyPair(s.KafkaTLSCert, s.KafkaTLSKey); err != nil {
			f.Add("KAFKA_TLS_CERT", "with KAFKA_TLS_KEY: %v", err)
		}
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(s.KafkaTLSCert, s.KafkaTLSKey)
		return &pair, err
	}
	return config
}

// kafkaSASL returns the mechanism by which this program authenticates itself to Kafka; nil
// without one. Faults are an unknown mechanism, a name or password that is missing or that SCRAM
// does not take, and one without a mechanism. PLAIN sends the password as it is: without TLS it
// is a fault unless every broker is on this machine.
func (f *Faults) kafkaSASL(s Settings, encrypted bool, brokers []string) sasl.Mechanism {
	if s.KafkaSASLMechanism == "" {
		for _, setting := range [][2]string{{"KAFKA_SASL_USERNAME", s.KafkaSASLUsername},
			{"KAFKA_SASL_PASSWORD", s.KafkaSASLPassword}} {
			if setting[1] != "" {
				f.Add(setting[0], "needs KAFKA_SASL_MECHANISM")
			}
		}
		return nil
	}
	name := f.OneOf("KAFKA_SASL_MECHANISM", s.KafkaSASLMechanism, kafka.Mechanisms...)
	if s.KafkaSASLUsername == "" {
		f.Add("KAFKA_SASL_USERNAME", "is missing beside KAFKA_SASL_MECHANISM")
	}
	if s.KafkaSASLPassword == "" {
		f.Add("KAFKA_SASL_PASSWORD", "is missing beside KAFKA_SASL_MECHANISM")
	}
	if name == kafka.Plain && !encrypted && slices.ContainsFunc(brokers, isElsewhere) {
		f.Add("KAFKA_SASL_MECHANISM", "%s sends the password unencrypted to a broker elsewhere: "+
			"set KAFKA_TLS=true, or use %s", kafka.Plain, kafka.ScramSHA512)
	}
	if name == "" {
		return nil
	}
	mechanism, err := kafka.Mechanism(name, s.KafkaSASLUsername, s.KafkaSASLPassword)
	if err != nil { // the error may have the password in it
		f.Add("KAFKA_SASL_PASSWORD", "or KAFKA_SASL_USERNAME has a character that SCRAM does not take")
	}
	return mechanism
}

// isElsewhere reports whether an address is not of the loopback.
func isElsewhere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true
	}
	ip := net.ParseIP(host)
	return !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback())
}
