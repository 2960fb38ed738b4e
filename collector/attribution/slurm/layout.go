package slurm

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/collector/attribution"
)

// layout is what the positions of the node's gpu GRES are.
type layout struct {
	devices []attribution.Device
	// indexed: nothing lists them, a position is a board's index.
	indexed bool
}

func (l layout) at(position uint32) (attribution.Device, error) {
	if l.indexed {
		return attribution.Device{Index: &position}, nil
	}
	if int(position) >= len(l.devices) {
		return attribution.Device{}, fmt.Errorf("position %d: the node's gres list has %d devices", position, len(l.devices))
	}
	return l.devices[position], nil
}

// layouts keeps the layout up to date with gres.conf and the node's Gres=.
type layouts struct {
	cfg     Config
	node    string
	read    stamp       // of the gres.conf that conf was read from
	conf    gresConf    // what it says
	entries []gresEntry // the node's Gres=; nil: not known, or not asked since
}

// stamp tells versions of a file apart.
type stamp struct {
	size     int64
	modified time.Time
}

// get answers the layout now. ask is called where several types make Slurm's
// order matter and it isn't known.
func (l *layouts) get(ctx context.Context, ask func(context.Context) (nodeGres, error)) (layout, error) {
	if len(l.cfg.Gres) > 0 {
		return fixedLayout(l.cfg.Gres), nil
	}
	if l.cfg.GresConf == "" {
		return layout{indexed: true}, nil
	}
	if err := l.load(); err != nil {
		return layout{}, err
	}
	if len(l.conf.devices) == 0 {
		return layout{indexed: true}, nil // AutoDetect alone
	}
	if l.entries == nil && !l.conf.oneKind() {
		node, err := ask(ctx)
		if err != nil {
			return layout{}, fmt.Errorf("ask for the order of the node's gres types: %w", err)
		}
		l.entries = node.gres
	}
	return l.resolve()
}

func fixedLayout(gres []GresDevice) layout {
	var out layout
	for _, d := range gres {
		out.devices = append(out.devices, d.device())
	}
	return out
}

// load reads gres.conf when it is another than the one known.
func (l *layouts) load() error {
	info, err := os.Stat(l.cfg.GresConf)
	if err != nil {
		return fmt.Errorf("read gres_conf: %w", err)
	}
	now := stamp{info.Size(), info.ModTime()}
	if now == l.read {
		return nil
	}
	text, err := os.ReadFile(l.cfg.GresConf)
	if err != nil {
		return fmt.Errorf("read gres_conf: %w", err)
	}
	conf, err := parseGresConf(l.cfg.GresConf, string(text), l.node)
	if err != nil {
		return err
	}
	l.read, l.conf, l.entries = now, conf, nil
	return nil
}

func (l *layouts) resolve() (layout, error) {
	devices := l.conf.devices
	if l.entries != nil {
		var err error
		if devices, err = l.conf.order(l.cfg.GresConf, l.entries); err != nil {
			return layout{}, err
		}
	}
	minors := sync.OnceValues(func() (map[uint32]attribution.Device, error) { return readMIGMinors(l.cfg.MIGMinors) })
	var out layout
	for _, d := range devices {
		device, err := d.device(minors)
		if err != nil {
			return layout{}, fmt.Errorf("%s:%d: %w", l.cfg.GresConf, d.line, err)
		}
		out.devices = append(out.devices, device)
	}
	return out, nil
}
