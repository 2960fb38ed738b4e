package gpusim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ebitengine/purego"
)

// buildTimeout bounds the compilation, which takes a few seconds on two cores.
const buildTimeout = 2 * time.Minute

// library holds the model's control functions (testdata/gpusim/model.h).
type library struct {
	dir string

	reset         func()
	do            func(lines string, reason *byte, size uintptr) int32
	advanceUS     func(us int64)
	clockUS       func() int64
	calls         func(symbol string) uint64
	truthEnergyMJ func(gpu uint32, fromUS, toUS int64) float64
	truthActivity func(gpu uint32, gi, ci int32, fromUS, toUS int64) float64
	notice        func()
}

// load builds and opens the libraries, once per process: they can't be closed
// again, because go-dcgm's calls stay bound to the library of the first call.
var load = sync.OnceValues(func() (*library, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	dir, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	return openLibraries(dir)
})

// openLibraries opens the libraries by path for the whole process. A later dlopen by
// soname, which the bindings use, then finds these.
func openLibraries(dir string) (*library, error) {
	handles := map[string]uintptr{}
	for _, name := range []string{libModel, libDCGM, libNVML} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("find simulated library: %w", err)
		}
		handle, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		handles[name] = handle
	}
	l := &library{dir: dir}
	return l, l.bind(handles[libModel], handles[libDCGM])
}

func (l *library) bind(model, dcgm uintptr) error {
	for _, f := range []struct {
		handle uintptr
		name   string
		target any
	}{
		{model, "gpusim_reset", &l.reset},
		{model, "gpusim_do", &l.do},
		{model, "gpusim_advance_us", &l.advanceUS},
		{model, "gpusim_clock_us", &l.clockUS},
		{model, "gpusim_calls", &l.calls},
		{model, "gpusim_truth_energy_mj", &l.truthEnergyMJ},
		{model, "gpusim_truth_activity", &l.truthActivity},
		{dcgm, "gpusim_dcgm_notice", &l.notice},
	} {
		symbol, err := purego.Dlsym(f.handle, f.name)
		if err != nil {
			return fmt.Errorf("find %s: %w", f.name, err)
		}
		purego.RegisterFunc(f.target, symbol)
	}
	return nil
}
