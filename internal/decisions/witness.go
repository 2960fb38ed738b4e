package decisions

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/trust"
)

// WitnessConfig configures where the log's head is sent at each decision, so that a
// log that was edited later contradicts what was sent. Any of the fields may be set.
type WitnessConfig struct {
	// File gets a line for each head: time, OFFSET=CHAIN, kind. verify and audit
	// compare the log with it.
	File string `yaml:"file"`
	// Syslog is the Unix socket of the local syslog, such as /dev/log.
	Syslog string `yaml:"syslog"`
	// HTTPS is a URL to which each head is posted as JSON: offset, chain, kind, at.
	// Every status but 2xx is a failure; redirects aren't followed.
	HTTPS string `yaml:"https"`
	// CAFile holds the certificate authorities for HTTPS; empty: the system's.
	CAFile string `yaml:"ca_file"`
	// TokenFile holds the bearer token for HTTPS; empty: none.
	TokenFile string `yaml:"token_file"`
	// Required: nothing is decided while the head can't be sent to a witness.
	// Otherwise decisions are in force, and the head is sent later.
	Required bool `yaml:"required"`
}

// Validate returns an error that names the invalid fields.
func (c WitnessConfig) Validate() error {
	u, err := url.Parse(c.HTTPS)
	if c.HTTPS != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
		return errors.New("https: want a URL such as https://witness.example/gputally, without a password in it")
	}
	if c.HTTPS == "" && (c.CAFile != "" || c.TokenFile != "") {
		return errors.New("ca_file, token_file: need https, which is not set")
	}
	if c.Required && c.File == "" && c.Syslog == "" && c.HTTPS == "" {
		return errors.New("required: set at least one of file, syslog and https")
	}
	return nil
}

// sentHead is a head of the log as it is sent to a witness.
type sentHead struct {
	At time.Time `json:"at"`
	Head
	Kind Kind `json:"kind"` // of the message at that offset; empty: it has none
}

func (s sentHead) String() string { return s.Head.String() + " " + string(s.Kind) }

const (
	witnessTries   = 3
	witnessTimeout = 5 * time.Second
)

// witness sends heads to all configured places. Its calls come one at a time.
type witness struct {
	config  WitnessConfig
	clock   clock.Clock
	metrics *metrics
	client  *http.Client // nil: made at the first use
	owed    bool         // the last head was not sent to every place, or none was sent yet
}

func (w *witness) none() bool {
	return w.config.File == "" && w.config.Syslog == "" && w.config.HTTPS == ""
}

// send sends a head to all places; the error joins the failures.
func (w *witness) send(ctx context.Context, s sentHead) error {
	var errs []error
	for _, to := range []struct {
		name, address string
		send          func(context.Context, sentHead) error
	}{{"file", w.config.File, w.write}, {"syslog", w.config.Syslog, w.log}, {"https", w.config.HTTPS, w.post}} {
		if to.address == "" {
			continue
		}
		if err := to.send(ctx, s); err != nil {
			w.metrics.witnessed.WithLabelValues(to.name, "failed").Inc()
			errs = append(errs, fmt.Errorf("send head %d to witness %s: %w", s.Offset, to.name, err))
			continue
		}
		w.metrics.witnessed.WithLabelValues(to.name, "sent").Inc()
	}
	err := errors.Join(errs...)
	w.owed = err != nil
	w.metrics.witnessOwed.Set(0)
	if w.owed {
		w.metrics.witnessOwed.Set(1)
	}
	return err
}

func (w *witness) write(_ context.Context, s sentHead) error {
	f, err := os.OpenFile(w.config.File, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s %s\n", s.At.UTC().Format(time.RFC3339), s)
	if lacksLineEnd(w.config.File) {
		line = unfinishedMark + "\n" + line
	}
	_, err = f.WriteString(line) // one call, so that lines of two processes don't mix
	return errors.Join(err, f.Sync(), f.Close())
}

// unfinishedMark ends a line of the file of which a crash or a full disk left only the beginning.
const unfinishedMark = " unfinished"

// lacksLineEnd reports whether the last line of a file has no end. A file that can't be read back, such as one that
// may only be written, counts as complete.
func lacksLineEnd(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// noticeOfAuthpriv is the syslog priority: facility × 8 + severity.
const noticeOfAuthpriv = 10<<3 | 5

// log writes a line in the format of local syslog sockets: RFC 3164 without a host. It
// times out if the daemon doesn't read.
func (w *witness) log(ctx context.Context, s sentHead) error {
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	until, _ := ctx.Deadline()
	var errs []error
	for _, network := range []string{"unixgram", "unix"} {
		out, err := (&net.Dialer{}).DialContext(ctx, network, w.config.Syslog)
		if err == nil {
			err = out.SetDeadline(until)
			if err == nil { // one call, because a datagram is one message
				_, err = fmt.Fprintf(out, "<%d>%s gputally[%d]: decisions head %s\n", noticeOfAuthpriv,
					s.At.Local().Format(time.Stamp), os.Getpid(), s)
			}
			return errors.Join(err, out.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// post retries a few times, within the time given by these constants.
func (w *witness) post(ctx context.Context, s sentHead) (err error) {
	if w.client == nil {
		if w.client, err = w.config.client(); err != nil {
			return err
		}
	}
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	pause := 200 * time.Millisecond
	for try := 1; ; try++ {
		if err = w.postOnce(ctx, body); err == nil || try == witnessTries || clock.Sleep(ctx, w.clock, pause) != nil {
			return err
		}
		pause *= 4
	}
}

func (w *witness) postOnce(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.config.HTTPS, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if w.config.TokenFile != "" {
		token, err := w.config.token()
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // the body of the response is not used
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("HTTP status %d instead of 2xx", res.StatusCode)
	}
	return nil
}

// token reads TokenFile for each head, because the token may be renewed.
func (c WitnessConfig) token() (string, error) {
	token, err := trust.ReadSecret(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	return strings.TrimSpace(token), nil
}

// CheckFiles returns an error if a configured file is missing or unusable, or if
// others could have written it or read a secret in it.
func (c WitnessConfig) CheckFiles() error {
	var errs []error
	if c.TokenFile != "" {
		_, err := c.token()
		errs = append(errs, err)
	}
	_, err := c.client()
	return errors.Join(append(errs, err)...)
}

func (c WitnessConfig) client() (*http.Client, error) {
	authorities, err := trust.Client(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	return &http.Client{
		Timeout: witnessTimeout,
		Transport: &http.Transport{
			TLSClientConfig: authorities, Proxy: http.ProxyFromEnvironment,
			MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// sight is the log's head; the log must have at least one message.
func (l *Log) sight() sentHead {
	l.mu.RLock()
	defer l.mu.RUnlock()
	head := l.state.Head()
	return sentHead{l.opt.Clock.Now().UTC().Truncate(time.Second), head, l.state.past[head.Offset].kind}
}

// testify sends the head before something is decided, if a witness is required. The
// caller holds deciding, as for announce.
func (l *Log) testify(ctx context.Context) error {
	if !l.witness.config.Required || l.next() == 0 {
		return nil
	}
	return l.witness.send(ctx, l.sight())
}

// announce sends the head after something was decided. A failure doesn't revoke the
// decision: the next head covers it too.
func (l *Log) announce(ctx context.Context) {
	if l.witness.none() {
		return
	}
	if err := l.witness.send(ctx, l.sight()); err != nil {
		l.opt.Log.Error("the decision is in force, but its head could not be sent to the witness; it will be sent later",
			"error", err)
	}
}

// Remind sends the head to the witnesses again if that failed last, or if this process
// has sent none yet.
func (l *Log) Remind(ctx context.Context) {
	if l.deciding.Acquire(ctx, 1) != nil {
		return // the caller is stopping
	}
	defer l.deciding.Release(1)
	if l.witness.owed && l.next() > 0 {
		l.announce(ctx)
	}
}

// ErrWitness reports that the log contradicts a head that was sent to a witness.
var ErrWitness = errors.New("the log contradicts its witness")

// errShort reports a log, or a copy, that ends before a head that was sent to a
// witness.
var errShort = errors.New("ends before it")

// compare compares a witness's file with the heads of a log, line by line, and returns the number of lines with a head,
// and of those that are unfinished: a head of which only the beginning was written says nothing.
func (c WitnessConfig) compare(headAt func(offset int64) Head) (lines, unfinished int, err error) {
	if c.File == "" {
		return 0, 0, nil
	}
	f, err := os.OpenFile(c.File, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil // nothing has been decided yet
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read witness: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, 4096)
	for number := 1; ; number++ {
		text, err := r.ReadSlice('\n')
		ended := errors.Is(err, io.EOF)
		if ended && len(text) == 0 {
			return lines, unfinished, nil
		}
		if err != nil && !ended {
			return lines, unfinished, fmt.Errorf("read witness: line %d of %s: %w", number, c.File, err)
		}
		line, marked := strings.CutSuffix(strings.TrimSuffix(string(text), "\n"), unfinishedMark)
		sent, err := headOf(line)
		switch {
		case err == nil:
			lines++
			err = contradicts(sent, headAt(sent.Offset))
		case ended || marked:
			unfinished++
			err = nil
		}
		if err != nil {
			return lines, unfinished, fmt.Errorf("%w: line %d of %s %w", ErrWitness, number, c.File, err)
		}
	}
}

// headOf returns the head in a line of a witness's file.
func headOf(line string) (Head, error) {
	if fields := strings.Fields(line); len(fields) >= 2 {
		if head, err := ParseHead(fields[1]); err == nil {
			return head, nil
		}
	}
	return Head{}, fmt.Errorf("is %s instead of a time and OFFSET=CHAIN", shown(strings.TrimSpace(line)))
}

// contradicts returns an error if a head that was sent is not the log's at its offset.
func contradicts(sent, now Head) error {
	switch {
	case now.Chain == "":
		return fmt.Errorf("has offset %d, but the log %w", sent.Offset, errShort)
	case now != sent:
		return fmt.Errorf("has %s, but the log has %s: the log or the file was changed", sent, now)
	}
	return nil
}
