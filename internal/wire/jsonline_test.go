package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/gputally/gputally/internal/wire"
)

const head = `"cluster":"k","node":"n1","slot":"2026-03-01T01:00:00+01:00","slot_ms":10000,"collector":"c1","boot_ms":1000,"seq":3`

func TestParseJSONLine(t *testing.T) {
	got, err := wire.ParseJSONLine([]byte(`{` + head + `,"attribution":"failed","enumeration":"partial",
		"observed":[[7000,10000],[0,1000],[1000,3000],[5000,5000]],"gpus":[
		{"uuid":"GPU-a","model":"m","slices":7,"mig":true,"lost":true,"unhealthy":true,"power_watts":70.5,"idle_watts":null,
		 "energy_mj":0,"energy_span_ms":10013,"energy_reset":true,"temperature":54,
		 "leaves":[{"id":"gi1","slices":3,"profile":"3g.40gb","gi":0,"ci":0,"mig_uuid":"MIG-1","from":0,"to":9000,"unhealthy":true,
		   "sm_active":0,"gr_engine_active":0.5,"gpu_util":null,"replicas":2}],
		 "holds":[{"leaf":"gi1","from":1000,"owner":{"tenant":"t","project":"p","namespace":"ns","pod":"po","uid":"u","container":"c","job":"j","user":"us","account":"ac"}}]},
		{"uuid":"k/n1","slices":16000,"pool":true,"unknown_capacity":true,"leaves":[{"id":"17","slices":2500}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &wire.Batch{
		Format: wire.Format, Cluster: "k", Node: "n1", SlotStartMs: 1_772_323_200_000, SlotMs: 10_000, Collector: "c1", BootMs: 1000, Seq: 3,
		Origin: wire.Origin_ORIGIN_IMPORT, Attribution: wire.Attribution_ATTRIBUTION_FAILED, Enumeration: wire.Enumeration_ENUMERATION_PARTIAL,
		Observed: []*wire.Interval{{FromMs: 0, ToMs: 3000}, {FromMs: 7000, ToMs: 10_000}},
		Gpus: []*wire.Gpu{{
			Uuid: "GPU-a", Model: "m", Slices: 7, Mig: true, Lost: true, Unhealthy: true, PowerWatts: proto.Float64(70.5),
			EnergyMj: proto.Int64(0), EnergySpanMs: proto.Int64(10_013), EnergyReset: true,
			Leaves: []*wire.Leaf{{
				Id: "gi1", Slices: 3, Profile: "3g.40gb", Gi: proto.Uint32(0), Ci: proto.Uint32(0), MigUuid: "MIG-1",
				FromMs: proto.Int64(0), ToMs: proto.Int64(9000), Unhealthy: true,
				SmActive: proto.Float64(0), GrEngineActive: proto.Float64(0.5), Replicas: 2,
			}},
			Holds: []*wire.Hold{{Leaf: "gi1", FromMs: proto.Int64(1000), Owner: &wire.Owner{
				Tenant: "t", Project: "p", Namespace: "ns", Pod: "po", Uid: "u", Container: "c", Job: "j", User: "us", Account: "ac",
			}}},
		}, {
			Uuid: "k/n1", Slices: 16_000, Pool: true, UnknownCapacity: true, Leaves: []*wire.Leaf{{Id: "17", Slices: 2500}},
		}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("batch differs (-want +got):\n%s", diff)
	}
}

func TestParseJSONLineDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		line       string
		observedMS int64
	}{
		"absent":        {`{` + head + `}`, 10_000},
		"null":          {`{` + head + `,"observed":null,"attribution":null,"enumeration":null,"gpus":null}`, 10_000},
		"nothing seen":  {`{` + head + `,"observed":[]}`, 0},
		"empty parts":   {`{` + head + `,"observed":[[4,4]]}`, 0},
		"said in words": {`{` + head + `,"attribution":"ok","enumeration":"complete"}`, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := wire.ParseJSONLine([]byte(c.line))
			if err != nil {
				t.Fatal(err)
			}
			if got := wire.ObservedMS(b); got != c.observedMS || !wire.AttributionOK(b) || !wire.EnumerationComplete(b) {
				t.Errorf("observed %d ms, want %d; attribution %v, enumeration %v", got, c.observedMS, b.Attribution, b.Enumeration)
			}
		})
	}
}

func TestParseJSONLineRefuses(t *testing.T) {
	without := func(field string) string {
		parts := strings.Split(head, ",")
		for i, p := range parts {
			if strings.HasPrefix(p, `"`+field+`"`) {
				parts = append(parts[:i:i], parts[i+1:]...)
				break
			}
		}
		return `{` + strings.Join(parts, ",") + `}`
	}
	for want, line := range map[string]string{
		`not a JSON object`:                            `slot,node`,
		`not a JSON object but array`:                  `[]`,
		`not a JSON object: unexpected end`:            `{"cluster":"k"`,
		`slot "":`:                                     without("slot"),
		`slot "yesterday":`:                            strings.Replace(`{`+head+`}`, "2026-03-01T01:00:00+01:00", "yesterday", 1),
		`slot "2026-03-01T00:00:00.0001Z":`:            strings.Replace(`{`+head+`}`, "2026-03-01T01:00:00+01:00", "2026-03-01T00:00:00.0001Z", 1),
		`slot 1772323205000:`:                          strings.Replace(`{`+head+`}`, "01:00:00+", "01:00:05+", 1),
		`slot_ms is missing`:                           without("slot_ms"),
		`boot_ms is missing`:                           without("boot_ms"),
		`seq is missing`:                               without("seq"),
		`cluster is empty`:                             without("cluster"),
		`attribution "maybe":`:                         `{` + head + `,"attribution":"maybe"}`,
		`enumeration "some":`:                          `{` + head + `,"enumeration":"some"}`,
		`observed[0] [1 2 3]:`:                         `{` + head + `,"observed":[[1,2,3]]}`,
		`observed[1] [9000 10001]:`:                    `{` + head + `,"observed":[[0,1],[9000,10001]]}`,
		`observed[0] [5 4]:`:                           `{` + head + `,"observed":[[5,4]]}`,
		`gpus.slices: got string, want uint32`:         `{` + head + `,"gpus":[{"uuid":"a","slices":"7"}]}`,
		`"dcgm_version": there is no`:                  `{` + head + `,"dcgm_version":"4.6"}`,
		`"enumeraton": there is no`:                    `{` + head + `,"enumeraton":"partial"}`,
		`"Cluster": there is no`:                       `{` + head + `,"Cluster":"other"}`,
		`"cluster": the field is there twice`:          `{` + head + `,"cluster":"other"}`,
		`"gpus[0].unhelthy": there is no`:              `{` + head + `,"gpus":[{"uuid":"a","unhelthy":true}]}`,
		`"gpus[0].leaves[0].to_ms": there is no`:       `{` + head + `,"gpus":[{"uuid":"a","leaves":[{"id":"x","slices":1,"to_ms":5}]}]}`,
		`"gpus[0].holds[0].from_ms": there is no`:      `{` + head + `,"gpus":[{"uuid":"a","leaves":[{"id":"x"}],"holds":[{"leaf":"x","from_ms":0,"owner":{}}]}]}`,
		`"gpus[0].holds[0].owner.team": there is no`:   `{` + head + `,"gpus":[{"uuid":"a","leaves":[{"id":"x"}],"holds":[{"leaf":"x","owner":{"team":"b"}}]}]}`,
		`gpus.energy_mj: got number 1.5`:               `{` + head + `,"gpus":[{"uuid":"a","energy_mj":1.5}]}`,
		`gpus[0] (a): holds[0].leaf "x" is not a leaf`: `{` + head + `,"gpus":[{"uuid":"a","holds":[{"leaf":"x","owner":{}}]}]}`,
	} {
		t.Run(want, func(t *testing.T) {
			if b, err := wire.ParseJSONLine([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("ParseJSONLine = %v, %v; want an error with %q", b, err, want)
			}
		})
	}
}
