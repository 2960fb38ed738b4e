package dcgm

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// DCGM's return codes (dcgm_structs.h, dcgmReturn_t) that are handled specially.
const (
	stNotSupported      = -6
	stVersionMismatch   = -12
	stNoData            = -14
	stNotWatched        = -16
	stNoPermission      = -17
	stGPULost           = -18
	stConnectionInvalid = -21
	stRequiresRoot      = -29
	stModuleNotLoaded   = -33
	stProfilingMissing  = -36
	stProfilingLibrary  = -37
	stGPUsDetached      = -67
	lowestCode          = -80 // below any of DCGM 4
)

// Error is an error returned by a DCGM call.
type Error struct {
	Call string
	Code int // dcgmReturn_t
	Text string
}

// Error has the call and DCGM's text and code.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code) }

// soname is the library that go-dcgm loads: only DCGM 4.
const soname = "libdcgm.so.4"

// symbols are the functions that go-dcgm or the shim call. go-dcgm binds them at the first call, and a missing one
// then ends the process.
var symbols = []string{
	"errorString", "dcgmInit", "dcgmShutdown", "dcgmConnect_v2", "dcgmDisconnect",
	"dcgmGetAllDevices", "dcgmGetAllSupportedDevices", "dcgmGetGpuStatus", "dcgmGetGpuInstanceHierarchy",
	"dcgmGroupCreate", "dcgmGroupAddEntity", "dcgmGroupDestroy", "dcgmFieldGroupCreate", "dcgmFieldGroupDestroy",
	"dcgmWatchFields", "dcgmUnwatchFields", "dcgmUpdateAllFields",
	"dcgmEntitiesGetLatestValues", "dcgmGetValuesSince_v2", "dcgmHostengineVersionInfo",
}

// loaded is the library of this process: it is never unloaded, since C code may have threads in it.
var loaded struct {
	sync.Mutex
	path string
	lib  unsafe.Pointer
}

// load loads the library, so that go-dcgm finds it by its soname, and looks up every function that will be called.
func load(cfg Config) error {
	loaded.Lock()
	defer loaded.Unlock()
	path := cmp.Or(cfg.Library, soname)
	lib, err := open(path)
	if err != nil {
		return err
	}
	if err := publish(lib, path, cfg); err != nil {
		C.gl_close(lib)
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}

func publish(lib unsafe.Pointer, path string, cfg Config) error {
	if err := missing(lib, cfg); err != nil {
		return err
	}
	if loaded.lib == lib {
		C.gl_close(lib) // one reference is enough
		return nil
	}
	if loaded.lib != nil {
		return fmt.Errorf("%s is loaded already, and a process can load only one DCGM library", loaded.path)
	}
	cpath, cname := C.CString(path), C.CString(soname)
	defer C.free(unsafe.Pointer(cpath))
	defer C.free(unsafe.Pointer(cname))
	if C.gl_publish(lib, cpath, cname) == 0 {
		return fmt.Errorf("the library's SONAME is not %s, or another %s is loaded: only DCGM 4 is supported", soname, soname)
	}
	C.gl_bind(lib)
	loaded.path, loaded.lib = path, lib
	return nil
}

func open(path string) (unsafe.Pointer, error) {
	name, text := C.CString(path), make([]byte, 512)
	defer C.free(unsafe.Pointer(name))
	lib := C.gl_open(name, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	if lib == nil {
		reason, _, _ := strings.Cut(string(text), "\x00")
		return nil, fmt.Errorf("load %s: %s: install DCGM 4 (package datacenter-gpu-manager-4-core), or name the file "+
			"under library", path, reason)
	}
	return lib, nil
}

// missing returns an error with the functions that the library lacks.
func missing(lib unsafe.Pointer, cfg Config) error {
	need := symbols
	switch {
	case cfg.Mode == Embedded:
		need = append(need[:len(need):len(need)], "dcgmStartEmbedded", "dcgmStopEmbedded")
	case cfg.hasScheme():
		if !has(lib, "dcgmConnect_v3") {
			return fmt.Errorf("address %q needs dcgmConnect_v3, which came with DCGM 4.5: update DCGM, or give host:port or "+
				"the path of a socket", cfg.Address)
		}
	}
	var lacks []string
	for _, s := range need {
		if !has(lib, s) {
			lacks = append(lacks, s)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("the library has no %s: update DCGM to 4.2 or newer", strings.Join(lacks, ", "))
	}
	return nil
}

func has(lib unsafe.Pointer, symbol string) bool {
	name := C.CString(symbol)
	defer C.free(unsafe.Pointer(name))
	return C.gl_has(lib, name) != 0
}

// check converts a return code to an error.
func check(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	return &Error{Call: call, Code: int(code), Text: C.GoString(C.gl_error_string(code))}
}

// codeOf is the return code of an error, including go-dcgm's, most of which contain only its text; 0: unknown.
func codeOf(err error) int {
	var own *Error
	var theirs *godcgm.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &theirs):
		return int(theirs.Code)
	}
	text := err.Error()
	for code := -1; code >= lowestCode; code-- {
		known := C.GoString(C.gl_error_string(C.int(code)))
		if known != "" && strings.HasSuffix(text, known) {
			return code
		}
	}
	return 0
}

// call adds the return code to an error of go-dcgm.
func call(what string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Call: what, Code: codeOf(err), Text: err.Error()}
}
