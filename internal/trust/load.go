package trust

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// ReadSecret reads a password or a token: the file's text without the line's end. A
// file that Secret refuses, or that is empty, is an error.
func ReadSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = Secret(path)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}

// Client is TLS 1.2 or later to servers that the authorities of a PEM file certify;
// without a file, the system's.
func Client(caFile string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return config, nil
	}
	if err := File(caFile); err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", caFile)
	}
	return config, nil
}
