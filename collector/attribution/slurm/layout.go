package slurm

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"github.com/gputally/gputally/collector/attribution"
)

// layout has the devices at the positions of the node's gpu GRES.
type layout struct {
	devices []attribution.Device
	// indexed: the devices aren't listed; a position is a board's index.
	indexed bool
}

// migType matches a MIG profile in a GRES type: "1g.10gb", "nvidia_h100_3g.40gb".
var migType = regexp.MustCompile(`(?i)[0-9]g[._-]?[0-9]+gb`)

func (l layout) at(position uint32) (attribution.Device, error) {
	if l.indexed {
		return attribution.Device{Index: &position, Whole: true}, nil
	}
	if int(position) >= len(l.devices) {
		return attribution.Device{}, fmt.Errorf("position %d: the node's GRES list has %d devices", position, len(l.devices))
	}
	return l.devices[position], nil
}

// layouts updates the layout from gres.conf and the node's Gres=.
type layouts struct {
	cfg     Config
	node    string
	file    attribution.File // gres.conf
	conf    gresConf         // its content
	entries []gresEntry      // the node's Gres=; nil: unknown, or outdated
}

// get returns the current layout. It calls ask if the node's Gres= is needed and unknown: for the order of several
// types, and to check that positions taken for board indices aren't MIG instances (unless details is off).
func (l *layouts) get(ctx context.Context, ask func(context.Context) (nodeGres, error)) (layout, error) {
	if len(l.cfg.Gres) > 0 {
		return fixedLayout(l.cfg.Gres), nil
	}
	if l.cfg.GresConf != "" {
		if err := l.load(); err != nil {
			return layout{}, err
		}
	}
	indexed := len(l.conf.devices) == 0 // no gres.conf, or AutoDetect only
	if l.entries == nil && (indexed && l.cfg.Details || !indexed && !l.conf.oneKind()) {
		node, err := ask(ctx)
		if err != nil {
			return layout{}, fmt.Errorf("query the types of the node's GRES: %w", err)
		}
		l.entries = node.gres
	}
	if indexed {
		return layout{indexed: true}, l.refuseInstances()
	}
	return l.resolve()
}

// refuseInstances returns an error if a position may be a MIG instance, so that it isn't an index.
func (l *layouts) refuseInstances() error {
	for _, e := range l.entries {
		if e.name == "gpu" && migType.MatchString(e.kind) {
			return fmt.Errorf("the node's Gres= has MIG instances (gpu:%s:%d), but their positions are unknown: "+
				"list the devices under gres, or in a gres_conf with File= or MultipleFiles=", e.kind, e.count)
		}
	}
	return nil
}

func fixedLayout(gres []GresDevice) layout {
	var out layout
	for _, d := range gres {
		out.devices = append(out.devices, d.device())
	}
	return out
}

// load reads gres.conf if it has changed.
func (l *layouts) load() error {
	text, changed, err := l.file.Read()
	if err != nil {
		return fmt.Errorf("read gres_conf: %w", err)
	}
	if !changed {
		return nil
	}
	conf, err := parseGresConf(l.cfg.GresConf, string(text), l.node)
	if err != nil {
		l.file.Forget()
		return err
	}
	l.conf, l.entries = conf, nil
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
		device.Whole = l.conf.detects() // since AutoDetect may replace a board by its instances
		out.devices = append(out.devices, device)
	}
	return out, nil
}
