package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/lifecycle"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/engine"
)

// The data directory's inside. FORMAT's number stands for this layout.
const (
	engineDir = datadir.EngineDir
	brokerDir = datadir.BrokerDir

	socketName       = "clickhouse.sock"
	brokerSocketName = "kafka.sock"
	httpSocketName   = "http.sock"
)

const (
	// attachWait covers a standalone that starts, or restarts its engine, and
	// another short command.
	attachWait  = 15 * time.Second
	stopTimeout = 30 * time.Second
)

// access is a command's way to a ledger: a database, and a broker's address
// where there is a broker. Close ends what was started for it.
type access struct {
	cfg     Config
	db      *store.DB
	options store.Options // of db
	data    string        // directory; empty: the configured servers
	broker  string        // address; empty: none was asked for
	// password is the embedded broker's.
	password string
	metrics  prometheus.Collector // the embedded broker's; nil where it isn't this process's
	run      datadir.Run          // of the process that serves the directory; zero: this one does
	dir      *datadir.Dir
	group    *lifecycle.Group
}

// needBroker says how to name a broker where there is none to reach.
func (a *access) needBroker() error {
	if a.broker == "" && len(a.cfg.Kafka.Brokers) == 0 {
		return usageError{errors.New("no broker is named: give --data DIR, or kafka.brokers in the configuration")}
	}
	return nil
}

// onData is the flag by which the next command finds the same ledger; empty: the
// configuration names it.
func (a *access) onData() string {
	if a.data == "" {
		return ""
	}
	return " --data '" + strings.ReplaceAll(a.data, "'", `'\''`) + "'"
}

// Close stops engine and broker where they are this command's own.
func (a *access) Close() error {
	err := a.db.Close()
	if a.group != nil {
		err = errors.Join(err, a.group.Stop())
	}
	return err
}

// openStore opens the ledger in dataDir for questions: open without a broker.
func (s *session) openStore(ctx context.Context, dataDir string) (*access, error) {
	return s.open(ctx, dataDir, false)
}

// open opens the ledger in dataDir, or the configured ClickHouse where dataDir
// is empty. In a directory that a standalone serves it uses that one's engine
// and broker, else it starts them for its own duration.
func (s *session) open(ctx context.Context, dataDir string, withBroker bool) (*access, error) {
	cfg, err := s.config(dataDir)
	if err != nil {
		return nil, err
	}
	if dataDir == "" {
		return s.openRemote(ctx, cfg)
	}
	at, err := datadir.Attach(ctx, dataDir, datadir.AttachOptions{Self: s.holder(), Clock: s.clock, Log: s.log, Wait: attachWait})
	if err != nil {
		return nil, err
	}
	if at.Own != nil {
		return s.startEmbedded(ctx, at.Own, cfg, withBroker)
	}
	options := s.embeddedOptions(cfg, at.Run.EngineSocket)
	db, err := openLedger(ctx, options)
	if err != nil {
		return nil, err
	}
	return &access{cfg: cfg, db: db, options: options, data: dataDir, broker: at.Run.BrokerAddress, password: at.Run.BrokerPassword, run: at.Run}, nil
}

// openRemote is for the separate services' ClickHouse.
func (s *session) openRemote(ctx context.Context, cfg Config) (*access, error) {
	if cfg.ClickHouse.Address == "" {
		return nil, usageError{errors.New("no ledger is named: give --data DIR, or clickhouse.address in the configuration")}
	}
	options := cfg.ClickHouse.options(s.log)
	db, err := openLedger(ctx, options)
	if err != nil {
		return nil, err
	}
	return &access{cfg: cfg, db: db, options: options}, nil
}

// startEmbedded starts the engine, and a broker where asked for, on a directory
// that this process holds, and brings the tables up to date. The directory is
// closed with the access, also when starting fails.
func (s *session) startEmbedded(ctx context.Context, dir *datadir.Dir, cfg Config, withBroker bool) (a *access, err error) {
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.clock, Log: s.log, StopTimeout: stopTimeout})
	group.OnStop("data directory", dir.Close)
	a = &access{cfg: cfg, data: dir.Path(), dir: dir, group: group}
	defer func() {
		if err != nil {
			err = errors.Join(err, group.Stop())
		}
	}()
	socket := filepath.Join(dir.TempDir(), socketName)
	supervisor, err := s.startEngine(ctx, dir, cfg, socket)
	if err != nil {
		return nil, err
	}
	group.OnStop("engine", func() error {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return supervisor.Stop(stop)
	})
	a.options = s.embeddedOptions(cfg, socket)
	if a.db, err = openLedger(ctx, a.options); err != nil {
		return nil, err
	}
	if _, err = a.db.Migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare ledger in %s: %w", dir.Path(), err), a.db.Close())
	}
	if !withBroker {
		return a, nil
	}
	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{
		Dir: dir.Join(brokerDir), Listen: "unix:" + filepath.Join(dir.TempDir(), brokerSocketName), Protected: true, Log: s.log, Clock: s.clock,
	})
	if err != nil {
		return nil, errors.Join(err, a.db.Close())
	}
	group.OnStop("broker", embedded.Close)
	a.broker, a.password, a.metrics = embedded.Addr(), embedded.Password(), embedded.Metrics()
	return a, nil
}

// startEngine runs this binary as the engine's helper process. The library is
// looked for here, so that its absence is one clear error.
func (s *session) startEngine(ctx context.Context, dir *datadir.Dir, cfg Config, socket string) (*engine.Supervisor, error) {
	library, err := engine.Locate(cfg.ClickHouse.Library)
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find gputally's own file: %w", err)
	}
	return engine.Supervise(context.WithoutCancel(ctx), engine.SuperviseOptions{
		Command: []string{
			executable, engineCommandName, "--dir", dir.Join(engineDir), "--socket", socket, "--library", library,
			"--memory-bytes", strconv.FormatInt(cfg.ClickHouse.MemoryBytes, 10), "--log-level", slog.LevelWarn.String(),
		},
		Socket: socket,
		Log:    s.log,
		Clock:  s.clock,
	})
}

func (s *session) embeddedOptions(cfg Config, socket string) store.Options {
	return store.Options{Address: "unix://" + socket, Database: cfg.ClickHouse.Database, Log: s.log, Clock: s.clock}
}

func openLedger(ctx context.Context, options store.Options) (*store.DB, error) {
	db, err := store.Open(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open ledger at %s: %w", options.Address, err)
	}
	return db, nil
}

func (c ClickHouseConfig) options(log *slog.Logger) store.Options {
	return store.Options{
		Address: c.Address, Database: c.Database, User: c.User, PasswordFile: c.PasswordFile, CAFile: c.CAFile, Log: log,
	}
}

// config is the configuration in force for a data directory.
func (s *session) config(dataDir string) (Config, error) {
	path, err := findConfig(s.configPath, dataDir)
	if err != nil {
		return Config{}, err
	}
	return loadConfig(path)
}

func (s *session) holder() datadir.Holder {
	return datadir.Holder{Command: s.commandLine(), Started: s.clock.Now().UTC()}
}
