package slurm

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"github.com/gputally/gputally/collector/attribution"
)

// layout is what the positions of the node's gpu GRES are.
type layout struct {
	devices []attribution.Device
	// indexed: nothing lists them, a position is taken for a board's index.
	indexed bool
}

// migType finds a MIG profile in a GRES type: "1g.10gb", "nvidia_h100_3g.40gb".
var migType = regexp.MustCompile(`(?i)[0-9]g[._-]?[0-9]+gb`)

func (l layout) at(position uint32) (attribution.Device, error) {
	if l.indexed {
		return attribution.Device{Index: &position, Whole: true}, nil
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
	file    attribution.File // gres.conf
	conf    gresConf         // what it says
	entries []gresEntry      // the node's Gres=; nil: not known, or not asked since
}

// get answers the layout now. ask is called where the node's Gres= matters and
// isn't known: for the order of several types, and to see that a guess at board
// indices isn't at MIG instances (not where nothing may be asked).
func (l *layouts) get(ctx context.Context, ask func(context.Context) (nodeGres, error)) (layout, error) {
	if len(l.cfg.Gres) > 0 {
		return fixedLayout(l.cfg.Gres), nil
	}
	if l.cfg.GresConf != "" {
		if err := l.load(); err != nil {
			return layout{}, err
		}
	}
	indexed := len(l.conf.devices) == 0 // no gres.conf, or AutoDetect alone
	if l.entries == nil && (indexed && l.cfg.Details || !indexed && !l.conf.oneKind()) {
		node, err := ask(ctx)
		if err != nil {
			return layout{}, fmt.Errorf("ask for the types of the node's gres: %w", err)
		}
		l.entries = node.gres
	}
	if indexed {
		return layout{indexed: true}, l.refuseInstances()
	}
	return l.resolve()
}

// refuseInstances is an error where a position may be a MIG instance, so that it
// is nobody's index.
func (l *layouts) refuseInstances() error {
	for _, e := range l.entries {
		if e.name == "gpu" && migType.MatchString(e.kind) {
			return fmt.Errorf("the node's Gres= has MIG instances (gpu:%s:%d), and nothing says which position is which: "+
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

// load reads gres.conf when it is another than the one known.
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
		device.Whole = l.conf.detects() // which may put instances in a board's place
		out.devices = append(out.devices, device)
	}
	return out, nil
}
