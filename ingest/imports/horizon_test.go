package imports

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"
)

// TestTimeToCome: a record that ends after now is a bad row, unless it was
// asked for; one that is open ends now.
func TestTimeToCome(t *testing.T) {
	const file = `job,start,end,gpus
1,2026-03-01T00:00:00Z,2026-03-01T02:00:00Z,1
2,2026-03-01T00:00:00Z,2027-03-01T02:00:00Z,1
3,2026-03-01T01:00:00Z,,1
4,2027-03-01T01:00:00Z,,1
`
	now := at(t, "2026-03-01T03:30:00Z")
	all := []string{"1 ends 2026-03-01T02:00:00Z", "2 ends 2027-03-01T02:00:00Z", "3 ends 2026-04-01T00:00:00Z"}
	for name, c := range map[string]struct {
		horizon Horizon
		want    []string
	}{
		"no clock": {Horizon{}, all},
		"asked":    {Horizon{NowMS: now, Future: true}, all},
		"now": {Horizon{NowMS: now}, []string{
			"1 ends 2026-03-01T02:00:00Z", "3 ends 2026-03-01T03:30:00Z",
			"line 3: end 2027-03-01T02:00:00Z is in the future (now 2026-03-01T03:30:00Z); --allow-future allows that",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadAllocations(strings.NewReader(file), Reading{
				Zone: time.UTC, WindowFromMS: at(t, "2026-03-01T00:00:00Z"), WindowToMS: at(t, "2026-04-01T00:00:00Z"),
				Horizon: c.horizon,
			})
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, r := range got.Records {
				lines = append(lines, r.Job+" ends "+rfc3339(r.EndMS))
			}
			for _, b := range got.Bad {
				lines = append(lines, fmt.Sprintf("line %d: %s", b.Line, b.Reason))
			}
			if diff := cmp.Diff(c.want, lines); diff != "" {
				t.Errorf("records and bad rows (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSlotsToCome: what hasn't begun is refused, or declared as simulated.
func TestSlotsToCome(t *testing.T) {
	line := func(ms int64) string {
		return fmt.Sprintf(
			`{"cluster":"k","node":"n","slot":%q,"slot_ms":10000,"collector":"c","boot_ms":1,"seq":0,"gpus":[]}`+"\n",
			rfc3339(ms))
	}
	now := at(t, "2026-03-01T00:00:00Z")
	file := line(now-10_000) + line(now+3_600_000)
	refused, err := Read(strings.NewReader(file), nil, Horizon{NowMS: now})
	if err != nil || len(refused.Encoded) != 1 || len(refused.Bad) != 1 || !strings.Contains(refused.Bad[0].Reason,
		"slot 2026-03-01T01:00:00Z is in the future") {
		t.Errorf("%+v, %v; want the slot to come refused", refused, err)
	}
	asked, err := Read(strings.NewReader(file), nil, Horizon{NowMS: now, Future: true})
	if err != nil || len(asked.Encoded) != 2 {
		t.Fatalf("%+v, %v; want both slots", asked, err)
	}
	for i, want := range []wire.Origin{wire.Origin_ORIGIN_IMPORT, wire.Origin_ORIGIN_SIMULATED} {
		if b, _, err := wire.Decode(asked.Encoded[i]); err != nil || b.Origin != want {
			t.Errorf("slot %d is of origin %v, %v; want %v", i, b.GetOrigin(), err, want)
		}
	}
}
