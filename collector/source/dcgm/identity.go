package dcgm

import (
	"fmt"
	"strings"
	"unsafe"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gputally/gputally/collector/source"
	"github.com/gputally/gputally/collector/source/field"
)

// identity are a GPU's names; they change only with its hardware or driver.
type identity struct {
	uuid, name, driver, cuda string
	mig                      bool
	maxSlices                uint32 // 0: not reported
	info                     source.GPUInfo
}

// liveData reads from the driver instead of the cache (DCGM_FV_FLAG_LIVE_DATA): the cache of an instance's id may
// have the names of an earlier instance.
const liveData = 1

var identityFields = []godcgm.Short{
	fieldDriver, fieldCUDA, fieldName, fieldSerial, fieldUUID, fieldMinor, fieldPCI,
	field.MIGMode, field.MIGMaxSlices, fieldVBIOS,
}

// identify reads the names of GPUs, by DCGM's id. A GPU that doesn't answer is missing in the result.
func identify(ids []uint32) (map[uint32]identity, error) {
	values, err := names(godcgm.FE_GPU, ids, identityFields)
	if err != nil {
		return nil, err
	}
	out := make(map[uint32]identity, len(ids))
	for i := range values {
		v := &values[i]
		id := out[uint32(v.EntityID)]
		id.take(v)
		out[uint32(v.EntityID)] = id
	}
	for id, g := range out {
		if g.uuid == "" {
			delete(out, id)
		}
	}
	return out, nil
}

func (id *identity) take(v *godcgm.FieldValue_v2) {
	n, isNumber := number(v)
	switch v.FieldID {
	case fieldDriver:
		id.driver = text(v)
	case fieldName:
		id.name = text(v)
	case fieldSerial:
		id.info.Serial = text(v)
	case fieldUUID:
		id.uuid = text(v)
	case fieldPCI:
		id.info.PCIBusID = text(v)
	case fieldVBIOS:
		id.info.VBIOS = text(v)
	}
	if !isNumber {
		return
	}
	switch v.FieldID {
	case fieldCUDA:
		id.cuda = fmt.Sprintf("%d.%d", n/1000, n%1000/10)
	case fieldMinor:
		id.info.Minor = new(uint32(n))
	case field.MIGMode:
		id.mig = n == 1
	case field.MIGMaxSlices:
		if n >= 1 && n <= 64 {
			id.maxSlices = uint32(n)
		}
	}
}

// names reads identity fields live.
func names(kind godcgm.Field_Entity_Group, ids []uint32, fields []godcgm.Short) ([]godcgm.FieldValue_v2, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pairs := make([]godcgm.GroupEntityPair, 0, len(ids))
	for _, id := range ids {
		pairs = append(pairs, godcgm.GroupEntityPair{EntityGroupId: kind, EntityId: uint(id)})
	}
	values, err := godcgm.EntitiesGetLatestValues(pairs, fields, liveData)
	return values, call("dcgmEntitiesGetLatestValues", err)
}

// text is a string value; empty: none, or one of DCGM's blanks (<<<…>>>).
func text(v *godcgm.FieldValue_v2) string {
	if v.Status != 0 || v.StringValue == nil || strings.HasPrefix(*v.StringValue, "<<<") {
		return ""
	}
	return strings.TrimSpace(*v.StringValue)
}

// number is an int64 value; ok is false for a blank.
func number(v *godcgm.FieldValue_v2) (int64, bool) {
	if v.Status != 0 || v.FieldType != godcgm.DCGM_FT_INT64 {
		return 0, false
	}
	n := *(*int64)(unsafe.Pointer(&v.Value))
	return n, n >= 0 && !field.IsBlank(float64(n))
}

// called is what instances are called, by entity.
type called struct{ profiles, uuids map[uint64]string }

// read reads the profile and the UUID of instances.
func (c called) read(kind godcgm.Field_Entity_Group, ids []uint32) error {
	values, err := names(kind, ids, []godcgm.Short{fieldName, fieldUUID})
	for i := range values {
		v := &values[i]
		at := entityKey(kind, v.EntityID)
		switch s := text(v); v.FieldID {
		case fieldName:
			if _, after, found := strings.Cut(s, " MIG "); found { // the driver's name of the device
				s = after
			}
			c.profiles[at] = s
		case fieldUUID:
			if strings.HasPrefix(s, "MIG-") {
				c.uuids[at] = s
			}
		}
	}
	return err
}

// hostengineVersion is "4.6.0" of "version:4.6.0;arch:…"; empty: not reported.
func hostengineVersion() string {
	v, err := godcgm.GetHostengineVersionInfo()
	if err != nil {
		return ""
	}
	for pair := range strings.SplitSeq(v.RawBuildInfoString, ";") {
		if version, found := strings.CutPrefix(strings.TrimSpace(pair), "version:"); found {
			return version
		}
	}
	return ""
}
