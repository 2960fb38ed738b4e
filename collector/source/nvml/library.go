package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

const defaultLibrary = "libnvidia-ml.so.1"

// library is the loaded NVML.
type library struct {
	api    gonvml.Interface
	handle *dl.DynamicLibrary // never closed: calls stay bound to it
	has    map[string]bool
}

// required are the functions that every reading needs; go-nvml itself selects the newest version of each.
var required = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName",
}

// load opens the library at a path, or as found by the loader.
func load(path string) (*library, error) {
	name := cmp.Or(path, defaultLibrary)
	l := &library{handle: dl.New(name, dl.RTLD_LAZY|dl.RTLD_GLOBAL), has: map[string]bool{}}
	if err := l.handle.Open(); err != nil {
		return nil, fmt.Errorf("open NVML (install the NVIDIA driver, or set nvml.library): %w", err)
	}
	for _, symbol := range required {
		if !l.have(symbol) {
			return nil, fmt.Errorf("open NVML: %s has no function %s: it is too old, or not NVIDIA's", name, symbol)
		}
	}
	l.api = gonvml.New(gonvml.WithLibraryPath(name))
	return l, nil
}

// have returns whether the library has a function. Calling a missing one ends the process.
func (l *library) have(symbol string) bool {
	there, known := l.has[symbol]
	if !known {
		there = l.handle.Lookup(symbol) == nil
		l.has[symbol] = there
	}
	return there
}

// haveAll returns whether the library has all functions.
func (l *library) haveAll(symbols ...string) bool {
	return !slices.ContainsFunc(symbols, func(s string) bool { return !l.have(s) })
}

// callError is the error of a failed call, with NVML's text.
func callError(call string, ret gonvml.Return) error { return fmt.Errorf("%s: %w", call, ret) }

// gone returns whether the driver is unloaded, or another one than was initialised.
func gone(err error) bool {
	return errors.Is(err, gonvml.ERROR_UNINITIALIZED) || errors.Is(err, gonvml.ERROR_DRIVER_NOT_LOADED) ||
		errors.Is(err, gonvml.ERROR_LIB_RM_VERSION_MISMATCH)
}

func lost(err error) bool { return errors.Is(err, gonvml.ERROR_GPU_IS_LOST) }

// advice is a hint about a failed initialisation.
func advice(ret gonvml.Return) string {
	switch ret {
	case gonvml.ERROR_DRIVER_NOT_LOADED:
		return "the kernel module nvidia is not loaded"
	case gonvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "library and kernel module are of different versions: the driver was updated and not reloaded"
	case gonvml.ERROR_NO_PERMISSION:
		return "/dev/nvidiactl can't be opened"
	}
	return "run nvidia-smi for more information"
}
