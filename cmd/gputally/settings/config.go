// Package settings defines gputally.yaml: a section per service, defaults, and validation. A file that another user
// could have written is refused.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/gputally/gputally/analyzer"
	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/collector"
	"github.com/gputally/gputally/collector/devices"
	"github.com/gputally/gputally/collector/source/dcgm"
	"github.com/gputally/gputally/collector/source/exporter"
	"github.com/gputally/gputally/collector/source/local"
	"github.com/gputally/gputally/collector/source/nvml"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/config"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/httpd"
	"github.com/gputally/gputally/internal/httpd/guard"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/trust"
)

const (
	// ConfigName is the configuration's file name in a data directory.
	ConfigName = "gputally.yaml"
	// ConfigEnv is the environment variable used if --config is not given.
	ConfigEnv = "GPUTALLY_CONFIG"
)

// Config is gputally.yaml: a section per service, and the addresses of Kafka and ClickHouse if these are not
// embedded.
type Config struct {
	Cluster   clusterConfig   `yaml:"cluster"`
	Collector CollectorConfig `yaml:"collector"`
	Exporter  exporter.Config `yaml:"exporter"`
	// Device has the rules for the readings of dcgm and nvml.
	Device      local.Config      `yaml:"device"`
	DCGM        dcgm.Config       `yaml:"dcgm"`
	NVML        nvml.Config       `yaml:"nvml"`
	Attribution attributionConfig `yaml:"attribution"`
	// DeviceMetrics determines what /metrics exposes of the devices.
	DeviceMetrics devices.Config   `yaml:"device_metrics"`
	Ingest        ingest.Config    `yaml:"ingest"`
	Ledger        ledger.Config    `yaml:"ledger"`
	Analyzer      analyzer.Config  `yaml:"analyzer"`
	Billing       billingConfig    `yaml:"billing"`
	Decisions     decisions.Config `yaml:"decisions"`
	Kafka         kafkaConfig      `yaml:"kafka"`
	ClickHouse    clickHouseConfig `yaml:"clickhouse"`
	HTTP          httpd.Config     `yaml:"http"`
}

// clusterConfig is the metered cluster and its slot length.
type clusterConfig struct {
	Name string `yaml:"name"`
	// Slot divides the hour and is one length per cluster.
	Slot time.Duration `yaml:"slot"`
}

// CollectorConfig is the collector's identity, source and spool.
type CollectorConfig struct {
	// ID is the collector's stable name; empty: the node's name.
	ID string `yaml:"id"`
	// Source is exporter, dcgm or nvml; empty: exporter if it has targets.
	Source string `yaml:"source"`
	// Node is the name of the node whose GPUs and owners are read; empty: $NODE_NAME, else the host's name.
	Node string `yaml:"node"`
	// SpoolDir is required by the collector service; standalone uses its data directory.
	SpoolDir      string `yaml:"spool_dir"`
	SpoolMaxBytes int64  `yaml:"spool_max_bytes"`
}

func (c CollectorConfig) validate() error {
	if c.SpoolMaxBytes < 1<<20 {
		return fmt.Errorf("spool_max_bytes %d: want 1048576 (1 MiB) or more", c.SpoolMaxBytes)
	}
	return nil
}

// billingConfig has the prices and the limits of the API.
type billingConfig struct {
	// Prices is the price book's file; empty: the built-in one. It is in force until a book is published.
	Prices string `yaml:"prices"`
	// API bounds the requests to the finance API.
	API guard.Config `yaml:"api"`
	// Approvals requires somebody else's approval of each invoice and note.
	Approvals bool `yaml:"approvals"`
	// Focus has the issuer's names in FOCUS exports.
	Focus focus.Config `yaml:"focus"`
}

// kafkaConfig is how separate services connect to Kafka. With empty brokers only the embedded one is used.
type kafkaConfig struct {
	Brokers []string `yaml:"brokers"`
	TLS     bool     `yaml:"tls"`
	CAFile  string   `yaml:"ca_file"`
	// CertFile and KeyFile are the client's certificate and its key, PEM; they are read for each connection, so that
	// a renewed one is used without a restart.
	CertFile string        `yaml:"cert_file"`
	KeyFile  string        `yaml:"key_file"`
	User     string        `yaml:"user"` // SASL; empty: none
	Password config.Secret `yaml:"password"`
	// Mechanism is plain, scram-sha-256 or scram-sha-512.
	Mechanism         string        `yaml:"mechanism"`
	Partitions        int           `yaml:"partitions"`         // of a new samples topic
	ReplicationFactor int           `yaml:"replication_factor"` // of new topics; -1: the broker's default
	Retention         time.Duration `yaml:"retention"`          // of a new samples topic
}

// clickHouseConfig is how separate services connect to ClickHouse. With an empty address only the embedded one is
// used.
type clickHouseConfig struct {
	Address  string `yaml:"address"` // http://host:8123 or https://host:8443
	Database string `yaml:"database"`
	User     string `yaml:"user"`
	// PasswordFile holds the password; empty: none.
	PasswordFile string `yaml:"password_file"`
	CAFile       string `yaml:"ca_file"`
	// Library is libchdb's path, for the embedded engine; empty: the one that make installed.
	Library string `yaml:"library"`
	// MemoryBytes limits the embedded engine.
	MemoryBytes int64 `yaml:"memory_bytes"`
}

// Default needs no file: everything is embedded, with one cluster.
func Default() Config {
	b := broker.DefaultConfig()
	return Config{
		Cluster:   clusterConfig{Name: "default", Slot: 10 * time.Second},
		Collector: CollectorConfig{SpoolMaxBytes: collector.DefaultConfig().SpoolMaxBytes},
		Exporter:  exporter.DefaultConfig(),
		Device:    local.DefaultConfig(), DCGM: dcgm.DefaultConfig(), NVML: nvml.DefaultConfig(),
		Attribution: defaultAttribution(), DeviceMetrics: devices.DefaultConfig(),
		Ingest:    ingest.DefaultConfig(),
		Ledger:    ledger.DefaultConfig(),
		Analyzer:  analyzer.DefaultConfig(),
		Billing:   billingConfig{API: guard.DefaultConfig(), Focus: focus.DefaultConfig()},
		Decisions: decisions.DefaultConfig(),
		Kafka: kafkaConfig{
			Mechanism: mechanismPlain, Partitions: b.SamplesPartitions, ReplicationFactor: b.ReplicationFactor,
			Retention: b.SamplesRetention,
		},
		ClickHouse: clickHouseConfig{Database: "gputally", User: "default", MemoryBytes: 2 << 30},
		HTTP:       httpd.DefaultConfig(),
	}
}

// Validate returns an error for each invalid value, with its key.
func (c Config) Validate() error {
	var errs []error
	section := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	section("cluster", c.Cluster.validate())
	section("collector", c.Collector.validate())
	section("exporter", ValidateExporter(c.Exporter))
	section("device", c.Device.Validate())
	section("dcgm", c.DCGM.Validate())
	section("nvml", c.NVML.Validate())
	section("attribution", c.Attribution.validate())
	section("device_metrics", c.DeviceMetrics.Validate())
	if err := c.ValidateSource(); err != nil {
		errs = append(errs, err)
	}
	section("ingest", c.Ingest.Validate())
	section("ledger", c.Ledger.Validate())
	if c.Ledger.RawRetention != 0 && c.Ledger.RawRetention < c.Ingest.MaxLate {
		section("ledger", fmt.Errorf(
			"raw_retention %s: must be 0 (for ever), or ingest.max_late (%s) or more: else raw data of batches that are still "+
				"accepted would be deleted", c.Ledger.RawRetention, c.Ingest.MaxLate))
	}
	section("analyzer", c.Analyzer.Validate())
	section("billing", c.Billing.validate())
	section("decisions", c.Decisions.Validate())
	section("kafka", c.Kafka.validate())
	section("clickhouse", c.ClickHouse.validate())
	section("http", c.HTTP.Validate())
	return errors.Join(errs...)
}

func (c clusterConfig) validate() error {
	if c.Name == "" {
		return errors.New("name: is empty")
	}
	if err := ValidateSlot(c.Slot); err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	return nil
}

// ValidateSlot accepts whole seconds that divide the hour.
func ValidateSlot(slot time.Duration) error {
	if slot < time.Second || slot > time.Hour || slot%time.Second != 0 || time.Hour%slot != 0 {
		return fmt.Errorf("%s: want whole seconds that divide the hour, such as 10s or 1m", slot)
	}
	return nil
}

func (c billingConfig) validate() error {
	if err := c.API.Validate(); err != nil {
		return fmt.Errorf("api: %w", err)
	}
	if err := c.Focus.Validate(); err != nil {
		return fmt.Errorf("focus: %w", err)
	}
	_, err := c.Book()
	return err
}

// Book loads the configured price book.
func (c billingConfig) Book() (*prices.Book, error) {
	if c.Prices == "" {
		return prices.Default(), nil
	}
	return prices.Load(c.Prices)
}

func (c clickHouseConfig) validate() error {
	if c.Database == "" {
		return errors.New("database: is empty")
	}
	if c.MemoryBytes < 256<<20 {
		return fmt.Errorf("memory_bytes %d: want 268435456 (256 MiB) or more", c.MemoryBytes)
	}
	if err := validateAddress(c.Address); err != nil {
		return err
	}
	if u, err := url.Parse(c.Address); err == nil && u.Scheme == "http" && c.PasswordFile != "" && !trust.Loopback(
		u.Hostname()) {
		return fmt.Errorf("address %q: a password is not sent without TLS to another machine: use https://", shownURL(u))
	}
	return nil
}

// Find returns the path of the configuration: the flag's, the environment's, the data directory's own, or empty. The
// working directory is not searched: other users may be able to write to it, and a configuration names programs to
// run.
func Find(flag, dataDir string) (string, error) {
	for _, named := range []string{flag, os.Getenv(ConfigEnv)} {
		if named != "" {
			return named, nil
		}
	}
	if dataDir == "" {
		return "", nil
	}
	path := filepath.Join(dataDir, ConfigName)
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("find configuration: %w", err)
	}
	return path, nil
}

// Load reads and checks the configuration at path; empty: the defaults.
func Load(path string) (Config, error) {
	cfg, err := Read(path)
	if err != nil {
		return cfg, err
	}
	if err := cfg.Validate(); err != nil {
		return cfg, cli.UsageError(fmt.Errorf("check %s: %w", path, err))
	}
	return cfg, nil
}

// Read is Load without Validate.
func Read(path string) (Config, error) {
	cfg := Default()
	if path == "" {
		return cfg, nil
	}
	if err := Trusted(path); err != nil {
		return cfg, err
	}
	if err := config.Load(path, &cfg); err != nil {
		return cfg, cli.UsageError(err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return cfg, fmt.Errorf("find %s: %w", path, err)
	}
	// Paths in a file are relative to its directory.
	for _, file := range []*string{
		&cfg.Collector.SpoolDir, &cfg.Ledger.TenantsFile, &cfg.Billing.Prices, &cfg.Kafka.CAFile, &cfg.Kafka.CertFile,
		&cfg.Kafka.KeyFile, &cfg.ClickHouse.CAFile, &cfg.ClickHouse.PasswordFile, &cfg.ClickHouse.Library,
		&cfg.Attribution.Static.File, &cfg.Attribution.Slurm.GresConf, &cfg.Attribution.Slurm.SlurmConf,
		&cfg.Attribution.Kubelet.Kubelet.TokenFile, &cfg.Attribution.Kubelet.Kubelet.CAFile,
		&cfg.Attribution.Kubelet.API.TokenFile, &cfg.Attribution.Kubelet.API.CAFile, &cfg.Decisions.CopyDir,
		&cfg.Decisions.Witness.File, &cfg.Decisions.Witness.CAFile, &cfg.Decisions.Witness.TokenFile,
	} {
		if *file != "" && *file != decisions.NoCopy && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
	return cfg, Trusted(cfg.deciding()...)
}

// deciding are the files named in the configuration that determine what is measured, run or billed.
func (c Config) deciding() []string {
	return []string{
		c.Ledger.TenantsFile, c.Billing.Prices, c.Kafka.CAFile, c.ClickHouse.CAFile, c.ClickHouse.Library,
		c.Attribution.Static.File,
		c.Decisions.Witness.CAFile, c.Decisions.Witness.TokenFile,
	}
}

// Trusted returns an error for files that another user could have written. Missing files are reported when they are
// read.
func Trusted(paths ...string) error {
	for _, path := range paths {
		if path == "" {
			continue
		}
		if err := trust.File(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("check who may write %s: %w", path, err)
		}
	}
	return nil
}

// Options are the options of the configured ClickHouse.
func (c clickHouseConfig) Options(log *slog.Logger) store.Options {
	return store.Options{
		Address: c.Address, Database: c.Database, User: c.User, PasswordFile: c.PasswordFile, CAFile: c.CAFile, Log: log,
	}
}
