package podresources

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gputally/gputally/internal/trust"
)

const (
	// objectMaxBytes bounds how much of an answer is in memory at once: the API server stores objects of up to 1.5
	// MiB, which JSON's escapes make up to six times as large.
	objectMaxBytes = 16 << 20
	// refusalMaxBytes bounds how much of an error answer is read for its message.
	refusalMaxBytes = 64 << 10
)

// client sends requests to one HTTPS server of Kubernetes. It is not safe for concurrent use.
type client struct {
	name string // "kubelet" or "API server", for errors
	base string
	cfg  Endpoint

	http *http.Client
	ca   []byte // content of cfg.CAFile with which http was created
}

// statusError is an answer other than 200.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

func isNotFound(err error) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == http.StatusNotFound
}

// newKubeletClient returns a client of the node's kubelet.
func newKubeletClient(cfg Endpoint, node string) *client {
	base := cfg.URL
	if base == "" {
		base = "https://" + net.JoinHostPort(node, "10250")
	}
	return &client{name: "kubelet", base: base, cfg: cfg}
}

// newAPIClient returns a client of the API server: the configured one, or the one in the pod's environment.
func newAPIClient(cfg Endpoint, getenv func(string) string) (*client, error) {
	base := cfg.URL
	if base == "" {
		host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, errors.New("find API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this " +
				"is not a pod, so set api.url")
		}
		base = "https://" + net.JoinHostPort(host, port)
	}
	return &client{name: "API server", base: base, cfg: cfg}, nil
}

// get decodes the JSON object at path, which must be of the given kind, so that the answer of a proxy or a login page
// isn't taken for an empty list.
func (c *client) get(ctx context.Context, path string, query url.Values, kind string, out any) error {
	return c.stream(ctx, path, query, func(answer io.Reader) error {
		body, err := io.ReadAll(io.LimitReader(answer, objectMaxBytes+1))
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if len(body) > objectMaxBytes {
			return fmt.Errorf("answer is larger than %d bytes", objectMaxBytes)
		}
		var header struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
		}
		switch {
		case !utf8.Valid(body):
			return errors.New("answer is not valid UTF-8")
		case json.Unmarshal(body, &header) != nil:
			return fmt.Errorf("answer is not a JSON object: %.80q", body)
		case header.Kind != kind:
			return fmt.Errorf("answer is of kind %q, want %s", header.Kind, kind)
		case header.Metadata.Continue != "":
			return errors.New("answer is only part of the list")
		}
		if err := json.Unmarshal(body, out); err != nil {
			return fmt.Errorf("decode %s: %w", kind, err)
		}
		return nil
	})
}

// stream passes the answer's body to read; its errors name the server and the path.
func (c *client) stream(ctx context.Context, path string, query url.Values, read func(io.Reader) error) error {
	target := strings.TrimSuffix(c.base, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	resp, err := c.fetch(ctx, target)
	if err != nil {
		return fmt.Errorf("query %s: %w", c.name, err)
	}
	defer resp.Body.Close()
	err = read(resp.Body)
	if over := ctx.Err(); err != nil && over != nil && !errors.Is(err, over) {
		// With HTTP/1 an exceeded deadline may look like the end of the body.
		err = fmt.Errorf("%w: %w", over, err)
	}
	if err != nil {
		return fmt.Errorf("query %s: GET %s: %w", c.name, target, err)
	}
	return nil
}

// fetch returns a response with status 200, or an error.
func (c *client) fetch(ctx context.Context, target string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("create request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "gputally")
	if err := c.authorize(req); err != nil {
		return nil, err
	}
	hc, err := c.transport(req.URL.Scheme)
	if err != nil {
		return nil, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return nil, c.explain(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	// An error while reading the message is ignored; the status is an error already.
	reason, _ := io.ReadAll(io.LimitReader(resp.Body, refusalMaxBytes))
	return nil, c.refused(target, resp.StatusCode, reason)
}

// authorize adds the token, read each time because Kubernetes replaces it hourly.
func (c *client) authorize(req *http.Request) error {
	if c.cfg.TokenFile == "" || req.URL.Scheme != "https" || c.cfg.exposesToken() {
		return nil
	}
	// Not trust.Secret: Kubernetes mounts tokens that every user of a pod can read.
	if err := trust.File(c.cfg.TokenFile); err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	token, err := os.ReadFile(c.cfg.TokenFile)
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	trimmed := strings.TrimSpace(string(token))
	if trimmed == "" {
		return fmt.Errorf("read token: %s is empty", c.cfg.TokenFile)
	}
	req.Header.Set("Authorization", "Bearer "+trimmed)
	return nil
}

// transport is created again when the CA file's content changes.
func (c *client) transport(scheme string) (*http.Client, error) {
	var ca []byte
	if scheme == "https" && c.cfg.CAFile != "" && !c.cfg.InsecureSkipVerify {
		err := trust.File(c.cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
		if ca, err = os.ReadFile(c.cfg.CAFile); err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
	}
	if c.http != nil && bytes.Equal(ca, c.ca) {
		return c.http, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.cfg.InsecureSkipVerify}
	if ca != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("read CA: %s holds no PEM certificate", c.cfg.CAFile)
		}
	}
	c.close()
	c.ca = ca
	c.http = &http.Client{
		// No proxy: the token is for the cluster only.
		Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return c.http, nil
}

// explain adds a hint about certificate errors.
func (c *client) explain(err error) error {
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return fmt.Errorf("%w (ca_file is %q; a kubelet's self-signed certificate needs its own file, or "+
			"insecure_skip_verify)", err, c.cfg.CAFile)
	}
	return err
}

func (c *client) refused(target string, status int, body []byte) error {
	var answer struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Message == "" {
		answer.Message = strings.ToValidUTF8(strings.TrimSpace(string(body[:min(len(body), 200)])), "?")
	}
	hint := ""
	switch status {
	case http.StatusUnauthorized:
		hint = fmt.Sprintf(" (token_file is %q)", c.cfg.TokenFile)
	case http.StatusForbidden:
		hint = " (the service account lacks the permission)"
	}
	return &statusError{status, fmt.Sprintf("GET %s: status %d: %s%s", target, status, answer.Message, hint)}
}

func (c *client) close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}
