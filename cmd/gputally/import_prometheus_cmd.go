package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/prometheus"
	"github.com/gputally/gputally/internal/lifecycle"
)

// historyFlags say which history of which Prometheus goes where.
type historyFlags struct {
	data, url, cluster, match, tokenFile, caFile string
	from, to                                     instant
	slot                                         time.Duration
}

func (s *session) importPrometheusCommand() *cobra.Command {
	f := &historyFlags{}
	cmd := &cobra.Command{
		Use:   "prometheus --url URL --from TIME --to TIME",
		Short: "Import what a Prometheus has kept of dcgm-exporters",
		Long: "Reads the DCGM_FI_* samples of a Prometheus, Thanos, Mimir or VictoriaMetrics between two times, as they were\n" +
			"scraped, and meters them as if gputally had scraped the exporters itself: the same rules (section exporter of\n" +
			"the configuration), spool, topic and ledger. Owners are the series' labels. Time in which a node has no\n" +
			"sample is unobserved. A slot shorter than the scrape interval is refused, unless the cluster has it already.\n\n" +
			"Importing again changes nothing; what Prometheus shows otherwise by then replaces what it showed before. A\n" +
			"run that was stopped is done again. Into a cluster that something else has sent, such as a running\n" +
			"collector, goes only what lies before its first batch.",
		Example: examples(
			"gputally import prometheus --url http://prometheus:9090 --from 2026-03-01T00:00:00Z --to 2026-04-01T00:00:00Z --slot 15s --data DIR", "a month, scraped every 15 s",
			`gputally import prometheus --url https://thanos/ --match '{cluster="a"}' --bearer-token-file TOKEN --cluster a --from 2026-03-01 --to 2026-03-08 --data DIR`, "one cluster of several",
		),
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "", "data `DIR`ectory, made where it is missing")
	flags.StringVar(&f.url, "url", "", "the Prometheus' `URL`, such as http://prometheus:9090")
	flags.Var(&f.from, "from", "first `TIME`, RFC 3339, the start of a slot")
	flags.Var(&f.to, "to", "`TIME` after the last, RFC 3339, the end of a slot that is over")
	flags.DurationVar(&f.slot, "slot", 0, "slot `LENGTH` of a new cluster: the scrape interval or more (default: the configured one)")
	flags.StringVar(&f.cluster, "cluster", "", "`NAME` of the cluster (default: the configured one)")
	flags.StringVar(&f.match, "match", "", "only series that match the `SELECTOR` too, such as {cluster=\"a\"}")
	flags.StringVar(&f.tokenFile, "bearer-token-file", "", "`FILE` with the bearer token")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM `FILE` with the authorities to trust instead of the system's")
	for _, name := range []string{"data", "url", "from", "to"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that isn't there
	}
	cmd.RunE = s.run(func(ctx context.Context, _ []string) error {
		s.resumes = true
		return s.importPrometheus(ctx, f)
	})
	return cmd
}

func (s *session) importPrometheus(ctx context.Context, f *historyFlags) (err error) {
	cfg, client, err := f.resolve(s.clock.Now())
	if err != nil {
		return usageError{err}
	}
	a, err := s.openOrCreate(ctx, f.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if f.cluster == "" {
		f.cluster = a.cfg.Cluster.Name
	}
	slot, own, err := f.slotOf(ctx, a)
	if err != nil {
		return err
	}
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.clock, Log: s.log, StopTimeout: stopTimeout})
	defer func() { err = errors.Join(err, group.Stop()) }()
	carrier := &recordRun{s: s, a: a, dataDir: f.data}
	if err := carrier.start(ctx, group); err != nil {
		return err
	}
	cfg.Rules, cfg.AllowCoarse = a.cfg.Exporter, own
	src, err := prometheus.New(cfg, prometheus.Deps{
		Cluster: f.cluster, HTTPClient: client, Clock: s.clock, Log: s.log, Registry: carrier.p.reg,
	})
	if err != nil {
		return usageError{err}
	}
	run := &historyRun{recordRun: carrier, cluster: f.cluster, source: src, from: cfg.From, to: cfg.To, slot: slot}
	return coarse(run.carryOut(ctx))
}

// resolve reads the flags. Its errors are the command line's.
func (f *historyFlags) resolve(now time.Time) (prometheus.Config, *http.Client, error) {
	cfg := prometheus.DefaultConfig()
	cfg.URL, cfg.Match, cfg.From, cfg.To = f.url, f.match, f.from.at, f.to.at
	if f.slot != 0 {
		if err := validateSlot(f.slot); err != nil {
			return cfg, nil, fmt.Errorf("--slot %w", err)
		}
	}
	if cfg.To.After(now) {
		return cfg, nil, fmt.Errorf("--to %s lies in the future", &f.to)
	}
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return cfg, nil, fmt.Errorf("--bearer-token-file: %w", err)
		}
		cfg.BearerToken = strings.TrimSpace(string(token))
		if cfg.BearerToken == "" {
			return cfg, nil, fmt.Errorf("--bearer-token-file %s: is empty", f.tokenFile)
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if f.caFile != "" {
		var err error
		if transport.TLSClientConfig.RootCAs, err = certificates(f.caFile); err != nil {
			return cfg, nil, fmt.Errorf("--ca-file: %w", err)
		}
	}
	return cfg, &http.Client{Transport: transport}, nil
}

// slotOf is the cluster's slot length; own: the cluster has it already, so that
// there is no choice.
func (f *historyFlags) slotOf(ctx context.Context, a *access) (slot time.Duration, own bool, err error) {
	lengths, err := slotLengths(ctx, a.db)
	if err != nil {
		return 0, false, err
	}
	slot = time.Duration(lengths[f.cluster]) * time.Millisecond
	switch own = slot > 0; {
	case own && f.slot != 0 && f.slot != slot:
		return 0, false, usageError{fmt.Errorf("--slot %s: cluster %q has slots of %s", f.slot, f.cluster, slot)}
	case !own && f.slot != 0:
		slot = f.slot
	case !own:
		slot = a.cfg.Cluster.Slot
	}
	for _, bound := range []struct {
		name string
		at   *instant
	}{{"--from", &f.from}, {"--to", &f.to}} {
		if start := source.At(bound.at.at, slot).Start; !start.Equal(bound.at.at) {
			return 0, false, usageError{fmt.Errorf("%s %s is no multiple of the slot of %s: %s is",
				bound.name, bound.at, slot, start.Format(time.RFC3339))}
		}
	}
	return slot, own, nil
}

// coarse says what to do about a slot that is too short.
func coarse(err error) error {
	var interval *prometheus.IntervalError
	if !errors.As(err, &interval) {
		return err
	}
	slot := interval.Interval.Truncate(time.Second)
	for slot < time.Hour && (slot < interval.Interval || time.Hour%slot != 0) {
		slot += time.Second
	}
	return usageError{fmt.Errorf("%w; give --slot %s, in a cluster that is new", err, slot)}
}
