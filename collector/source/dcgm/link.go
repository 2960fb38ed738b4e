package dcgm

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

const (
	connectTimeoutMS = 5000
	embeddedHandle   = 0x7fffffff // DCGM_EMBEDDED_HANDLE
)

// taken is set while a link of this process is open: go-dcgm has one handle.
var taken atomic.Bool

// link is a connection to a host engine: go-dcgm's, whose handle it doesn't export, and one for the shim. In embedded
// mode both are the same.
type link struct {
	handle   C.uintptr_t
	embedded bool
	buffer   C.gl_buffer
	// mig is the hierarchy as last read, and its hash.
	mig struct {
		mark      C.uint64_t
		read      bool
		instances []godcgm.MigHierarchyInfo_v2
	}
}

// dial loads the library and connects. The shim's connection comes first: its error has a code, and its time is
// bounded.
func dial(cfg Config) (*link, error) {
	if err := load(cfg); err != nil {
		return nil, err
	}
	if !taken.CompareAndSwap(false, true) {
		return nil, errors.New("connect to DCGM: another source of this process is connected, and a process has one " +
			"connection")
	}
	l := &link{embedded: cfg.Mode == Embedded, handle: embeddedHandle}
	connect := l.connect
	if l.embedded {
		connect = l.embed
	}
	if err := connect(cfg); err != nil {
		taken.Store(false)
		return nil, err
	}
	return l, nil
}

func (l *link) embed(Config) error {
	if _, err := godcgm.Init(godcgm.Embedded); err != nil {
		return fmt.Errorf("start embedded DCGM (as user %d; root may be needed): %w", os.Geteuid(), err)
	}
	return nil
}

func (l *link) connect(cfg Config) error {
	if err := check("dcgmInit", C.gl_init()); err != nil {
		return fmt.Errorf("connect to nv-hostengine at %s: %w", cfg.Address, err)
	}
	if err := l.connectOwn(cfg); err != nil {
		C.gl_shutdown()
		return fmt.Errorf("connect to nv-hostengine at %s: %w: is nvidia-dcgm.service running, and is this its address?",
			cfg.Address, err)
	}
	if _, err := godcgm.Init(godcgm.Standalone, cfg.Address, cfg.socketFlag()); err != nil {
		C.gl_disconnect(l.handle)
		C.gl_shutdown()
		return fmt.Errorf("connect to nv-hostengine at %s: %w", cfg.Address, err)
	}
	return nil
}

func (l *link) connectOwn(cfg Config) error {
	address := C.CString(cfg.Address)
	defer C.free(unsafe.Pointer(address))
	if cfg.hasScheme() {
		return check("dcgmConnect_v3", C.gl_connect_string(address, connectTimeoutMS, &l.handle))
	}
	socket := C.int(0)
	if cfg.isSocket() {
		socket = 1
	}
	return check("dcgmConnect_v2", C.gl_connect(address, socket, connectTimeoutMS, &l.handle))
}

// close closes everything. Errors are ignored: they mean that the host engine has ended, with its groups and watches.
func (l *link) close() {
	_ = godcgm.Shutdown()
	if !l.embedded {
		C.gl_disconnect(l.handle)
		C.gl_shutdown()
	}
	C.gl_free(&l.buffer)
	taken.Store(false)
}

// devices lists the ids of all GPUs of the host engine.
func (l *link) devices() ([]uint32, error) {
	var ids [C.GL_MAX_DEVICES]C.uint
	var n C.int
	if err := check("dcgmGetAllDevices", C.gl_devices(l.handle, &ids[0], &n)); err != nil {
		return nil, err
	}
	out := make([]uint32, 0, n)
	for _, id := range ids[:max(0, min(n, C.GL_MAX_DEVICES))] {
		out = append(out, uint32(id))
	}
	return out, nil
}

// entity is DCGM's pair of kind (dcgm_field_entity_group_t) and id.
type entity = C.gl_entity

func newEntity(kind godcgm.Field_Entity_Group, id uint) entity {
	return entity{group: C.int32_t(kind), id: C.uint32_t(id)}
}

// record is one value as the shim packs it; see shim.h.
type record = C.gl_record

// latest reads the newest value of all fields of all entities. The records are valid until the link's next call.
func (l *link) latest(entities []entity, fields []uint16) ([]record, error) {
	if len(entities) == 0 || len(fields) == 0 {
		return nil, nil
	}
	rc := C.gl_latest(l.handle, &l.buffer, &entities[0], C.uint(len(entities)),
		(*C.uint16_t)(unsafe.Pointer(&fields[0])), C.uint(len(fields)))
	return l.records("dcgmEntitiesGetLatestValues", rc)
}

// since reads the samples of a watch from an instant on, in µs since 1970. With an error it also returns the records
// before it.
func (l *link) since(w *watch, fromUS int64) ([]record, error) {
	rc := C.gl_since(l.handle, &l.buffer, C.uintptr_t(w.group.GetHandle()), C.uintptr_t(w.fields.GetHandle()),
		C.int64_t(fromUS))
	if rc == stNoData || rc == stNotWatched { // for all entities and fields of the watch
		rc = 0
	}
	return l.records("dcgmGetValuesSince_v2", rc)
}

func (l *link) records(call string, rc C.int) ([]record, error) {
	if l.buffer.failed != 0 {
		return nil, fmt.Errorf("%s: no memory for its values, or more than %d of them", call, C.GL_MAX_RECORDS)
	}
	return unsafe.Slice(l.buffer.records, l.buffer.count), check(call, rc)
}
