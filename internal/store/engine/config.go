package engine

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gputally/gputally/internal/clock"
)

// configXML is the engine's configuration. Without one it would read config.xml of the working directory or the home
// directory. All four fsync settings are needed to survive a power failure: with fewer, either acknowledged rows are
// lost or the table doesn't load again.
const configXML = `<clickhouse>
    <merge_tree>
        <fsync_after_insert>1</fsync_after_insert>
        <fsync_part_directory>1</fsync_part_directory>
        <min_rows_to_fsync_after_merge>1</min_rows_to_fsync_after_merge>
        <min_compressed_bytes_to_fsync_after_merge>1</min_compressed_bytes_to_fsync_after_merge>
    </merge_tree>
`

const configEnd = "</clickhouse>\n"

const (
	configName         = "engine.xml"
	defaultMemoryBytes = 2 << 30
	markCacheBytes     = 64 << 20
	maxConnsInUse      = 64

	// A helper whose parent died needs time to finish its statements.
	defaultDrain    = 5 * time.Second
	defaultLockWait = 2 * defaultDrain
)

// Options are the settings of the engine, and of Serve.
type Options struct {
	Dir         string       // data directory of the engine; created if missing
	Library     string       // path of libchdb.so; empty: see Locate
	MemoryBytes int64        // the engine's memory limit; 0: 2 GiB
	Threads     int          // threads per statement; 0: the engine's default
	Log         *slog.Logger // nil: nothing is logged
	Clock       clock.Clock  // nil: the real one

	// ExtraConfig has more elements of ClickHouse's configuration as XML, such as remote_servers, macros and
	// zookeeper for the tables of a cluster.
	ExtraConfig string

	LockWait time.Duration // Serve: how long to wait for another holder of Dir to end; 0: 10 s
	Drain    time.Duration // Serve: how long running statements may continue after the stop; 0: 5 s
	Socket   string        // Serve: path of the Unix socket, created with mode 0600
	Stdin    io.Reader     // Serve: stops at its end; nil: only ctx stops it
}

func (o *Options) normalize() error {
	if o.Dir == "" {
		return fmt.Errorf("open engine: Dir is empty")
	}
	if o.MemoryBytes < 0 {
		return fmt.Errorf("open engine: MemoryBytes is %d, need 0 or more", o.MemoryBytes)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("resolve engine directory %q: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultMemoryBytes
	}
	if o.LockWait == 0 {
		o.LockWait = defaultLockWait
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	return nil
}

// arguments writes the configuration and returns the command line for connect.
func (o Options) arguments() ([]string, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create engine directory: %w", err)
	}
	config := filepath.Join(o.Dir, configName)
	if err := os.WriteFile(config, []byte(configXML+o.ExtraConfig+configEnd), 0o600); err != nil {
		return nil, fmt.Errorf("write engine configuration: %w", err)
	}
	arguments := []string{
		"clickhouse",
		"--path=" + o.Dir,
		"--config-file=" + config,
		"--session_timezone=UTC",
		"--max_server_memory_usage=" + strconv.FormatInt(o.MemoryBytes, 10),
		"--mark_cache_size=" + strconv.Itoa(markCacheBytes),
	}
	if o.Threads > 0 {
		arguments = append(arguments, "--max_threads="+strconv.Itoa(o.Threads))
	}
	return arguments, nil
}
