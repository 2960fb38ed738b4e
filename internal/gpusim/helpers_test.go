package gpusim_test

import (
	"testing"
	"time"

	"github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gputally/gputally/internal/gpusim"
)

// DCGM field ids and codes that the tests use (dcgm_fields.h, dcgm_structs.h).
const (
	fieldName      = dcgm.Short(50)
	fieldUUID      = dcgm.Short(54)
	fieldPower     = dcgm.Short(157)
	fieldEnergy    = dcgm.Short(156)
	fieldUtil      = dcgm.Short(203)
	fieldXID       = dcgm.Short(230)
	fieldDBE       = dcgm.Short(311)
	fieldRemapFail = dcgm.Short(395)
	fieldSM        = dcgm.Short(1002)

	statusNotConnected     = -21
	statusNotWatched       = -16
	statusNoData           = -14
	statusLost             = -18
	statusInstanceNotFound = -45
)

const (
	int64Blank        = int64(0x7ffffffffffffff0)
	int64NotSupported = int64Blank + 2
	float64Blank      = float64(1 << 47)
)

// open starts a model with the lines and connects go-dcgm to it.
func open(t *testing.T, lines string) *gpusim.Sim {
	t.Helper()
	sim := gpusim.Open(t)
	sim.Do(lines)
	connect(t)
	return sim
}

func connect(t *testing.T) {
	t.Helper()
	cleanup, err := dcgm.Init(dcgm.Standalone, "127.0.0.1:5555", "0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cleanup)
}

func gpu(id uint) dcgm.GroupEntityPair {
	return dcgm.GroupEntityPair{EntityGroupId: dcgm.FE_GPU, EntityId: id}
}

func instance(id uint) dcgm.GroupEntityPair {
	return dcgm.GroupEntityPair{EntityGroupId: dcgm.FE_GPU_I, EntityId: id}
}

func computeInstance(id uint) dcgm.GroupEntityPair {
	return dcgm.GroupEntityPair{EntityGroupId: dcgm.FE_GPU_CI, EntityId: id}
}

// watched is a group of entities with a group of fields watched each second.
type watched struct {
	group  dcgm.GroupHandle
	fields dcgm.FieldHandle
}

func watch(t *testing.T, every time.Duration, entities []dcgm.GroupEntityPair, fields ...dcgm.Short) watched {
	t.Helper()
	group, err := dcgm.CreateGroup(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entities {
		if err := dcgm.AddEntityToGroup(group, e.EntityGroupId, e.EntityId); err != nil {
			t.Fatalf("add entity %+v: %v", e, err)
		}
	}
	fieldGroup, err := dcgm.FieldGroupCreate(t.Name()+every.String(), fields)
	if err != nil {
		t.Fatal(err)
	}
	if err := dcgm.WatchFieldsWithGroupEx(fieldGroup, group, every.Microseconds(), 3600, 0); err != nil {
		t.Fatal(err)
	}
	return watched{group, fieldGroup}
}

func read(t *testing.T, e dcgm.GroupEntityPair, field dcgm.Short) dcgm.FieldValue_v2 {
	t.Helper()
	values, err := dcgm.EntitiesGetLatestValues([]dcgm.GroupEntityPair{e}, []dcgm.Short{field}, 0)
	if err != nil {
		t.Fatalf("read field %d of %+v: %v", field, e, err)
	}
	return values[0]
}

func (w watched) since(t *testing.T, from time.Time) []dcgm.FieldValue_v2 {
	t.Helper()
	values, _, err := dcgm.GetValuesSince(w.group, w.fields, from)
	if err != nil {
		t.Fatal(err)
	}
	return values
}
