package rating

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
)

const usageHeader = "hour,tenant,project,model,profile,profile_slices,slices,bucket,slice_ms,energy_mj\n"

func TestReadCSVSkipsASpreadsheetsByteOrderMark(t *testing.T) {
	const line = "2026-03-01T01:00:00+01:00,a,p,H100,1g.10gb,1,7,idle,3600000,-5\r\n"
	plain, err := ReadCSV(strings.NewReader(usageHeader + line))
	if err != nil {
		t.Fatal(err)
	}
	marked, err := ReadCSV(strings.NewReader(byteOrderMark + usageHeader + line))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, marked); diff != "" || len(plain) != 1 || plain[0].EnergyMJ != -5 || plain[0].Hour.Hour() != 0 {
		t.Errorf("rows with a mark (-without +with):\n%s\nof %+v", diff, plain)
	}
}

func TestReadCSVTellsWhatIsWrongWithANumber(t *testing.T) {
	for text, want := range map[string]string{
		"2026-03-01T00:00:00Z,a,,H100,,,7,active,99999999999999999999,0": `line 2: slice_ms "99999999999999999999" is beyond 64 bits`,
		"2026-03-01T00:00:00Z,a,,H100,,,70000,active,1,0":                `line 2: slices "70000" is beyond 16 bits`,
		"2026-03-01T00:00:00Z,a,,H100,,,7,active,one,0":                  `line 2: slice_ms "one" is not an integer`,
		"2026-03-01T00:00:00Z,\xff,,H100,,,7,active,1,0":                 `line 2: tenant "\xff" is not UTF-8`,
	} {
		if _, err := ReadCSV(strings.NewReader(usageHeader + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of %q = %v, want it to contain %s", text, err, want)
		}
	}
}

// FuzzReadCSV: any file is rows or an error, cheaply.
func FuzzReadCSV(f *testing.F) {
	f.Add(usageHeader + "2026-03-01T01:00:00+01:00,a,p,H100,1g.10gb,1,7,idle,3600000,-5\r\n")
	f.Add(usageHeader + "\"" + strings.Repeat("\n", 100))
	f.Fuzz(func(t *testing.T, text string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(text)), func() {
			rows, err := ReadCSV(strings.NewReader(text))
			if err == nil && len(rows) > len(text) {
				t.Errorf("%d rows of %q", len(rows), text)
			}
		})
	})
}

// TestL6UsageIsRefusedAtTheRecordThatHasNoEnd reads no further.
func TestL6UsageIsRefusedAtTheRecordThatHasNoEnd(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(usageHeader+"\""), zeros{})
	var err error
	if peak := costtest.Peak(func() { _, err = ReadCSV(endless) }); peak > 64<<20 || err == nil {
		t.Errorf("held %d bytes, error %v", peak, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
