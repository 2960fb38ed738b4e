package dcgm

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gputally/gputally/internal/config"
)

// Modes of connecting to DCGM.
const (
	Standalone = "standalone" // a running nv-hostengine
	Embedded   = "embedded"   // a host engine inside this process
)

// Config is how DCGM is reached and which fields are read.
type Config struct {
	Mode string `yaml:"mode"`
	// Address of nv-hostengine: host:port, the absolute path of a Unix socket, or,
	// from DCGM 4.5 on, tcp://, unix:// or vsock:// with what follows.
	Address string `yaml:"address"`
	// Library is the path of libdcgm.so.4; empty: the loader's search.
	Library string `yaml:"library"`
	// Interval between DCGM's samples, shortened to the slot if that is shorter.
	Interval time.Duration `yaml:"interval"`
	// Profiling watches SM activity and similar fields. On A100 that keeps the GPU out of its idle state: some 50 W.
	Profiling bool `yaml:"profiling"`
	// Fields are further GPU fields to read, by DCGM's id or name: the classic one or that of DCGM 4.6.
	Fields []string `yaml:"fields"`
	// Keep is how long DCGM keeps samples of activity and XIDs; at least two slots.
	Keep time.Duration `yaml:"keep"`
}

// DefaultConfig uses the node's nv-hostengine at its default port.
func DefaultConfig() Config {
	return Config{
		Mode: Standalone, Address: "localhost:5555",
		Interval: 2 * time.Second, Profiling: true, Keep: 10 * time.Minute,
	}
}

const (
	minInterval = 100 * time.Millisecond // the minimum for profiling fields
	maxInterval = time.Minute
	maxKeep     = 24 * time.Hour
)

// Validate returns an error for each invalid value.
func (c Config) Validate() error {
	var p config.Problems
	p.OneOf("mode", c.Mode, Standalone, Embedded)
	if err := c.validateAddress(); c.Mode == Standalone {
		p.Want(err == nil, "address %q: %w", c.Address, err)
	}
	p.Want(c.Library == "" || filepath.IsAbs(c.Library),
		"library %q: must be an absolute path, such as /usr/lib/x86_64-linux-gnu/libdcgm.so.4", c.Library)
	p.Want(c.Interval >= minInterval && c.Interval <= maxInterval,
		"interval %s: must be %s to %s", c.Interval, minInterval, maxInterval)
	p.Want(c.Keep >= 2*c.Interval && c.Keep <= maxKeep,
		"keep %s: must be two intervals (%s) to %s", c.Keep, 2*c.Interval, maxKeep)
	_, err := extraFields(c.Fields)
	p.Add(err)
	return p.Err()
}

func (c Config) validateAddress() error {
	if scheme, rest, found := strings.Cut(c.Address, "://"); found {
		if !slices.Contains([]string{"tcp", "unix", "vsock"}, scheme) {
			return fmt.Errorf("scheme %q: must be tcp, unix or vsock", scheme)
		}
		if rest == "" {
			return fmt.Errorf("nothing follows %s://", scheme)
		}
		return nil
	}
	if strings.HasPrefix(c.Address, "/") {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil || host == "" {
		return errors.New("must be host:port, the absolute path of a Unix socket, or start with tcp://, unix:// or vsock://")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("port %q: must be 1 to 65535", port)
	}
	return nil
}

// hasScheme returns whether the address requires dcgmConnect_v3.
func (c Config) hasScheme() bool { return strings.Contains(c.Address, "://") }

func (c Config) isSocket() bool { return strings.HasPrefix(c.Address, "/") }

// socketFlag is go-dcgm's argument that distinguishes a socket's path from host:port.
func (c Config) socketFlag() string {
	if c.isSocket() {
		return "1"
	}
	return "0"
}

// maxExtra leaves room for the fields read anyway: DCGM accepts 128 fields at a time.
const maxExtra = 64

// extraFields are the ids of configured fields that aren't read anyway.
func extraFields(names []string) (ids []uint16, err error) {
	var errs []error
	for i, name := range names {
		id, err := fieldID(name)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("fields[%d] %q: %w", i, name, err))
		case !slices.Contains(boardFields, id) && !slices.Contains(profilingFields, id) && !slices.Contains(ids, id):
			ids = append(ids, id)
		}
	}
	if len(ids) > maxExtra {
		errs = append(errs, fmt.Errorf("fields: %d of them, must be %d at most", len(ids), maxExtra))
	}
	return ids, errors.Join(errs...)
}

// FieldName is the configured name of a field; empty: it isn't configured.
func (c Config) FieldName(id uint32) string {
	for _, name := range c.Fields {
		if got, ok := godcgm.GetFieldID(name); ok && got > 0 && uint32(got) == id {
			return name
		}
	}
	return ""
}

// maxFieldID is the largest DCGM field id.
const maxFieldID = 1<<16 - 1

func fieldID(name string) (uint16, error) {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil {
		if n == 0 || n > maxFieldID {
			return 0, fmt.Errorf("a field id must be 1 to %d", maxFieldID)
		}
		return uint16(n), nil
	}
	if id, ok := godcgm.GetFieldID(name); ok && id > 0 {
		return uint16(id), nil
	}
	return 0, errors.New("is neither the id nor the name of a DCGM field")
}
