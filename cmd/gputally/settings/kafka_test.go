package settings

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/trust"
)

// certificateFiles makes a self-signed certificate of localhost, for a server and
// for a client, and its key.
func certificateFiles(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Real().Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	placetest.WriteFile(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	placetest.WriteFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// strictKafka takes clients with the certificate who know the password.
func strictKafka(t *testing.T, mechanism, cert, key string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := trust.Client(cert)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser(strings.ToUpper(mechanism), "me", "right"),
		kfake.BrokerConfigs(map[string]string{"default.replication.factor": "1"}),
		kfake.TLS(&tls.Config{
			Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities.RootCAs,
			MinVersion: tls.VersionTLS12,
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	_, port, _ := strings.Cut(cluster.ListenAddrs()[0], ":")
	return "localhost:" + port
}

// TestKafkaLogIn: each mechanism over TLS with a client's certificate; without
// it, with another password or by another mechanism nobody gets in.
func TestKafkaLogIn(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificateFiles(t, dir)
	path, password := filepath.Join(dir, ConfigName), filepath.Join(dir, "password")
	for _, mechanism := range []string{mechanismPlain, mechanismSCRAM256, mechanismSCRAM512} {
		address := strictKafka(t, mechanism, cert, key)
		try := func(secret, more string) error {
			placetest.WriteFile(t, password, secret)
			if err := os.Chmod(password, 0o600); err != nil {
				t.Fatal(err)
			}
			placetest.WriteFile(t, path,
				fmt.Sprintf("kafka: {brokers: [%q], tls: true, ca_file: cert.pem, user: me, password_file: %s%s}\n", address,
					password, more))
			cfg, err := Load(path)
			if err != nil {
				return err
			}
			b, err := cfg.Kafka.Broker()
			if err != nil {
				return err
			}
			b.RequestTimeout = 5 * time.Second
			client := broker.NewClient(b, slog.New(slog.DiscardHandler))
			defer client.Close()
			return client.EnsureTopics(t.Context())
		}
		const certificate = ", cert_file: cert.pem, key_file: key.pem"
		by := ", mechanism: " + mechanism
		other := map[string]string{
			mechanismPlain: mechanismSCRAM256, mechanismSCRAM256: mechanismSCRAM512,
			mechanismSCRAM512: mechanismPlain,
		}
		if err := try("right", certificate+by); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
		if mechanism == mechanismPlain && try("right", certificate) != nil {
			t.Error("PLAIN is not the default any more")
		}
		for name, err := range map[string]error{
			"wrong password":  try("wrong", certificate+by),
			"no certificate":  try("right", by),
			"other mechanism": try("right", certificate+", mechanism: "+other[mechanism]),
		} {
			if err == nil {
				t.Errorf("%s: a client with %s was let in", mechanism, name)
			}
		}
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	placetest.WriteFile(t, path, "kafka: {tls: true, cert_file: cert.pem, key_file: key.pem}\n")
	var untrusted *trust.Error
	if _, err := Load(path); !errors.As(err, &untrusted) {
		t.Errorf("a key that everybody can read: %v, want a *trust.Error", err)
	}
}
