package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/gputally/gputally/collector/attribution/podresources"
	"github.com/gputally/gputally/collector/attribution/static"
	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/tenants"
	"github.com/gputally/gputally/internal/trust"
)

// ValidateExporter also accepts no targets: then nothing is scraped.
func ValidateExporter(c exporter.Config) error {
	if len(c.Targets) == 0 {
		return nil
	}
	for i, target := range c.Targets {
		if err := validateTarget(target.URL); err != nil {
			return fmt.Errorf("targets[%d].url %w", i, err)
		}
	}
	return c.Validate()
}

// validateTarget refuses URLs that may contain a secret: a target's URL is shown in metrics, in logs, and on the
// command line in LOCK, run.json and status. The error shows the URL without it.
func validateTarget(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("(%d characters): is not a URL, want one such as http://node:9400/metrics", len(raw))
	case u.User != nil:
		return fmt.Errorf("%q: has a user or password, which would be shown in metrics and logs; want http://host:port/path",
			shownURL(u))
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf(
			"%q: has a query or fragment, which would be shown in metrics and logs; want http://host:port/path", shownURL(u))
	}
	return nil
}

// validateAddress validates ClickHouse's HTTP address; empty: the embedded one.
func validateAddress(address string) error {
	if address == "" {
		return nil
	}
	const want = "want http://host:port or https://host:port"
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("address (%d characters): %s", len(address), want)
	}
	if u.User != nil {
		return fmt.Errorf("address %q: has a user or password, which belong in user and password_file; %s", shownURL(u), want)
	}
	web := u.Scheme == "http" || u.Scheme == "https"
	if !web || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path,
		"/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("address %q: %s", shownURL(u), want)
	}
	return nil
}

// shownURL is a URL without user, query and fragment.
func shownURL(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}
	return bare.String()
}

// LoadFiles reads the files named in the configuration, which Validate leaves to the services that use them.
func (c Config) LoadFiles() error {
	var errs []error
	file := func(key, path string, load func() error) {
		if path == "" {
			return
		}
		if err := load(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	file("ledger: tenants_file", c.Ledger.TenantsFile, func() error {
		_, err := tenants.Load(c.Ledger.TenantsFile)
		return err
	})
	file("attribution: static: file", c.staticFile(), func() error {
		owners, err := static.New(c.Attribution.Static, static.Deps{Clock: clock.Real(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		_, err = owners.Read(context.Background())
		return err
	})
	file("clickhouse: password_file", c.ClickHouse.PasswordFile, func() error {
		_, err := trust.ReadSecret(c.ClickHouse.PasswordFile)
		return err
	})
	file("clickhouse: ca_file", c.ClickHouse.CAFile, func() error {
		_, err := trust.Client(c.ClickHouse.CAFile)
		return err
	})
	file("clickhouse: library", c.ClickHouse.Library, func() error {
		_, err := os.Stat(c.ClickHouse.Library)
		return err
	})
	c.Attribution.loadFiles(file)
	file("decisions: witness", c.Decisions.Witness.HTTPS, c.Decisions.Witness.CheckFiles)
	return errors.Join(errs...)
}

// staticFile is the file of owners; empty: not used.
func (c Config) staticFile() string {
	if !slices.Contains(c.Attribution.Readers, ReaderStatic) {
		return ""
	}
	return c.Attribution.Static.File
}

// loadFiles reads the files of the readers in use, but those of a pod's service account, which are elsewhere absent.
func (c attributionConfig) loadFiles(file func(key, path string, load func() error)) {
	readable := func(path string) func() error {
		return func() error { _, err := os.ReadFile(path); return err }
	}
	if slices.Contains(c.Readers, ReaderSlurm) {
		file("attribution: slurm: gres_conf", c.Slurm.GresConf, readable(c.Slurm.GresConf))
		file("attribution: slurm: slurm_conf", c.Slurm.SlurmConf, readable(c.Slurm.SlurmConf))
	}
	if !slices.Contains(c.Readers, ReaderKubelet) {
		return
	}
	pod := podresources.DefaultConfig().API
	for key, e := range map[string]podresources.Endpoint{"kubelet": c.Kubelet.Kubelet, "api": c.Kubelet.API} {
		if e.TokenFile != pod.TokenFile {
			file("attribution: kubelet: "+key+": token_file", e.TokenFile, readable(e.TokenFile))
		}
		if e.CAFile != pod.CAFile {
			file("attribution: kubelet: "+key+": ca_file", e.CAFile, func() error {
				_, err := trust.Client(e.CAFile)
				return err
			})
		}
	}
}
