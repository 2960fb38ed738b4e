package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gputally/gputally/cmd/gputally/settings"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
	"github.com/gputally/gputally/internal/lifecycle"
	"github.com/gputally/gputally/internal/shell"
	"github.com/gputally/gputally/internal/store"
	"github.com/gputally/gputally/internal/store/engine"
)

// EngineCommandName is the command that is the engine's helper process.
const EngineCommandName = "engine"

// OpenOrCreate opens a ledger with its broker, in a new directory too.
func OpenOrCreate(ctx context.Context, s *cli.Session) (*Access, error) {
	dir, err := datadir.Open(s.Data, Holder(s))
	var locked *datadir.LockedError
	if errors.As(err, &locked) {
		return Open(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	cfg, err := ConfigOf(s)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	cfg.Ledger.KeepMapping = true
	return StartEmbedded(ctx, s, dir, cfg, true)
}

// The sockets in the data directory's temporary folder.
const (
	SocketName       = "clickhouse.sock"
	brokerSocketName = "kafka.sock"
	httpSocketName   = "http.sock"
)

const (
	// attachWait covers a standalone that starts, or restarts its engine, and
	// another short command.
	attachWait  = 15 * time.Second
	stopTimeout = 30 * time.Second
)

// Access is a command's way to a ledger: a database, and a broker's address
// where there is a broker. Close ends what was started for it.
type Access struct {
	Config  settings.Config
	DB      *store.DB
	options store.Options // of db
	data    string        // directory; empty: the configured servers
	Broker  string        // address; empty: none was asked for
	// password is the embedded broker's.
	password string
	metrics  prometheus.Collector // the embedded broker's; nil where it isn't this process's
	Run      datadir.Run          // of the process that serves the directory; zero: this one does
	Dir      *datadir.Dir
	group    *lifecycle.Group
}

// needBroker says how to name a broker where there is none to reach.
func (a *Access) needBroker() error {
	if a.Broker == "" && len(a.Config.Kafka.Brokers) == 0 {
		return cli.UsageError(errors.New("no broker is named: give --data DIR, or kafka.brokers in the configuration"))
	}
	return nil
}

// OnData is the flag by which the next command finds the same ledger; empty: the
// configuration names it.
func (a *Access) OnData() string {
	if a.data == "" {
		return ""
	}
	return " --data " + shell.Quote(a.data)
}

// Close stops engine and broker where they are this command's own.
func (a *Access) Close() (err error) {
	if a.DB != nil {
		err = a.DB.Close()
	}
	if a.group != nil {
		err = errors.Join(err, a.group.Stop())
	}
	return err
}

// Open opens the ledger of --data with its broker, or the configured ClickHouse where
// there is no --data. In a directory that a standalone serves it uses that one's engine
// and broker, else it starts them for its own duration.
func Open(ctx context.Context, s *cli.Session) (*Access, error) { return open(ctx, s, true) }

// OpenStore is Open for questions, without a broker.
func OpenStore(ctx context.Context, s *cli.Session) (*Access, error) { return open(ctx, s, false) }

// open is for commands: they keep the tenants' mapping that was published, and a service
// that starts takes the configured one.
func open(ctx context.Context, s *cli.Session, withBroker bool) (*Access, error) {
	cfg, err := ConfigOf(s)
	if err != nil {
		return nil, err
	}
	cfg.Ledger.KeepMapping = true
	if s.Data == "" {
		return openRemote(ctx, s, cfg)
	}
	at, err := datadir.Attach(ctx, s.Data,
		datadir.AttachOptions{Self: Holder(s), Clock: s.Clock, Log: s.Log, Wait: attachWait})
	if err != nil {
		return nil, err
	}
	if at.Own != nil {
		return StartEmbedded(ctx, s, at.Own, cfg, withBroker)
	}
	options := embeddedOptions(s, cfg, at.Run.EngineSocket)
	db, err := openLedger(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Access{
		Config: cfg, DB: db, options: options, data: s.Data, Broker: at.Run.BrokerAddress,
		password: at.Run.BrokerPassword, Run: at.Run,
	}, nil
}

// openRemote is for the separate services' ClickHouse.
func openRemote(ctx context.Context, s *cli.Session, cfg settings.Config) (*Access, error) {
	if cfg.ClickHouse.Address == "" {
		return nil, cli.UsageError(
			errors.New("no ledger is named: give --data DIR, or clickhouse.address in the configuration"))
	}
	options := cfg.ClickHouse.Options(s.Log)
	db, err := openLedger(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Access{Config: cfg, DB: db, options: options}, nil
}

// StartEmbedded starts the engine, and a broker where asked for, on a directory
// that this process holds, and brings the tables up to date. The directory is
// closed with the access, also when starting fails.
func StartEmbedded(ctx context.Context, s *cli.Session, dir *datadir.Dir, cfg settings.Config,
	withBroker bool,
) (a *Access, err error) {
	group := lifecycle.New(ctx, lifecycle.Options{Clock: s.Clock, Log: s.Log, StopTimeout: stopTimeout})
	group.OnStop("data directory", dir.Close)
	a = &Access{Config: cfg, data: dir.Path(), Dir: dir, group: group}
	defer func() {
		if err != nil {
			err = errors.Join(err, group.Stop())
		}
	}()
	socket := filepath.Join(dir.TempDir(), SocketName)
	supervisor, err := startEngine(ctx, s, dir, cfg, socket)
	if err != nil {
		return nil, err
	}
	group.OnStop("engine", func() error {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return supervisor.Stop(stop)
	})
	a.options = embeddedOptions(s, cfg, socket)
	if a.DB, err = openLedger(ctx, a.options); err != nil {
		return nil, err
	}
	if _, err = a.DB.Migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare ledger in %s: %w", dir.Path(), err), a.DB.Close())
	}
	if !withBroker {
		return a, nil
	}
	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{
		Dir: dir.Join(datadir.BrokerDir), Listen: "unix:" + filepath.Join(dir.TempDir(), brokerSocketName), Protected: true,
		Log: s.Log, Clock: s.Clock,
	})
	if err != nil {
		return nil, errors.Join(err, a.DB.Close())
	}
	group.OnStop("broker", embedded.Close)
	a.Broker, a.password, a.metrics = embedded.Addr(), embedded.Password(), embedded.Metrics()
	return a, nil
}

// startEngine runs this binary as the engine's helper process. The library is
// looked for here, so that its absence is one clear error.
func startEngine(ctx context.Context, s *cli.Session, dir *datadir.Dir, cfg settings.Config,
	socket string,
) (*engine.Supervisor, error) {
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
			executable, EngineCommandName, "--dir", dir.Join(datadir.EngineDir), "--socket", socket, "--library", library,
			"--memory-bytes", strconv.FormatInt(cfg.ClickHouse.MemoryBytes, 10), "--log-level", slog.LevelWarn.String(),
		},
		Socket: socket,
		Log:    s.Log,
		Clock:  s.Clock,
	})
}

func embeddedOptions(s *cli.Session, cfg settings.Config, socket string) store.Options {
	return store.Options{Address: "unix://" + socket, Database: cfg.ClickHouse.Database, Log: s.Log, Clock: s.Clock}
}

func openLedger(ctx context.Context, options store.Options) (*store.DB, error) {
	db, err := store.Open(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open ledger at %s: %w", options.Address, err)
	}
	return db, nil
}

// ConfigOf is the configuration in force for a data directory.
func ConfigOf(s *cli.Session) (settings.Config, error) {
	path, err := settings.Find(s.ConfigPath, s.Data)
	if err != nil {
		return settings.Config{}, err
	}
	return settings.Load(path)
}

// Holder is how this invocation names itself to those who want the directory.
func Holder(s *cli.Session) datadir.Holder {
	return datadir.Holder{Command: s.CommandLine(), Started: s.Clock.Now().UTC()}
}
