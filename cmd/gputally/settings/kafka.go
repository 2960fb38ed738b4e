package settings

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/trust"
)

// The values of kafka.mechanism. SCRAM proves the password without revealing it to the broker, or to an impostor.
const (
	mechanismPlain    = "plain"
	mechanismSCRAM256 = "scram-sha-256"
	mechanismSCRAM512 = "scram-sha-512"
)

func (c kafkaConfig) validate() error {
	if (c.User == "") != c.Password.IsZero() {
		return fmt.Errorf("user %q: give both user and password, or neither", c.User)
	}
	// Checking the address of one broker is not enough: it returns others, which are dialled next.
	if c.User != "" && !c.TLS && !c.behindSocket() {
		return fmt.Errorf("user %q: a password is not sent without tls: true", c.User)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fmt.Errorf("cert_file %q, key_file %q: give both, or neither", c.CertFile, c.KeyFile)
	}
	for key, file := range map[string]string{"ca_file": c.CAFile, "cert_file": c.CertFile} {
		if file != "" && !c.TLS {
			return fmt.Errorf("%s %q: requires tls: true", key, file)
		}
	}
	probe := c
	if len(probe.Brokers) == 0 {
		probe.Brokers = []string{"127.0.0.1:9092"} // embedded: its own address
	}
	b, err := probe.Broker()
	if err != nil {
		return err
	}
	return b.Validate()
}

// behindSocket returns whether every connection goes to a Unix socket.
func (c kafkaConfig) behindSocket() bool {
	return len(c.Brokers) == 1 && strings.HasPrefix(c.Brokers[0], "unix:")
}

// Broker returns the configuration of package broker.
func (c kafkaConfig) Broker() (broker.Config, error) {
	b := broker.DefaultConfig()
	b.Brokers = c.Brokers
	b.SamplesPartitions, b.ReplicationFactor, b.SamplesRetention = c.Partitions, c.ReplicationFactor, c.Retention
	var err error
	if b.SASL, err = c.sasl(); err != nil {
		return b, err
	}
	b.TLS, err = c.transport()
	return b, err
}

// sasl returns the authentication mechanism; nil without a user.
func (c kafkaConfig) sasl() (sasl.Mechanism, error) {
	algorithms := map[string]scram.Algorithm{mechanismSCRAM256: scram.SHA256, mechanismSCRAM512: scram.SHA512}
	algorithm, isSCRAM := algorithms[c.Mechanism]
	if !isSCRAM && c.Mechanism != mechanismPlain {
		return nil, fmt.Errorf("mechanism %.40q: want %s, %s or %s", c.Mechanism, mechanismPlain, mechanismSCRAM256,
			mechanismSCRAM512)
	}
	switch {
	case c.User == "":
		return nil, nil
	case !isSCRAM:
		return plain.Mechanism{Username: c.User, Password: c.Password.Reveal()}, nil
	}
	m, err := scram.Mechanism(algorithm, c.User, c.Password.Reveal())
	if err != nil {
		return nil, errors.New("password: has characters that SCRAM does not take (RFC 4013)") // err may contain the password
	}
	return m, nil
}

// transport is nil if connections are in plain text.
func (c kafkaConfig) transport() (t *tls.Config, err error) {
	if !c.TLS {
		return nil, nil
	}
	if t, err = trust.Client(c.CAFile); err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	if c.CertFile == "" {
		return t, nil
	}
	if _, err := c.certificate(nil); err != nil {
		return nil, err
	}
	t.GetClientCertificate = c.certificate
	return t, nil
}

// certificate reads the client's certificate and key.
func (c kafkaConfig) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if err := trust.Secret(c.KeyFile); err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("cert_file %s, key_file %s: %w", c.CertFile, c.KeyFile, err)
	}
	return &pair, nil
}
