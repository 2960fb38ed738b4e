package imports

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
)

const sacctText = `State|JobID|User|Account|Start|End|ElapsedRaw|AllocTRES|NodeList|Cluster
COMPLETED|100|alice|bio|2026-03-01T22:00:00|2026-03-02T01:00:00|10800|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4|n[1-2]|c1
COMPLETED|101_3|bob|phys|2026-03-01T10:00:00|2026-03-01T11:00:00|3600|cpu=1,gres/gpu=1|n1|c1
RUNNING|102|bob|phys|2026-03-01T23:00:00|Unknown|3000|gres/gpu=3,gres/gpu:a100=2|n[1-2]|c1
CANCELLED by 1000|103|bob|phys|Unknown|2026-03-01T11:00:00|0||None assigned|c1
PENDING|104_[1-9]|bob|phys|Unknown|Unknown|0||None assigned|c1
NODE_FAIL|105|eve|phys|2026-03-01T01:00:00|2026-03-01T02:00:00|3600|gres/gpu=2|n1|c1
COMPLETED|105|eve|phys|2026-03-01T03:00:00|2026-03-01T04:00:00|3600|gres/gpu=2|n2|c1
COMPLETED|106+0|eve|phys|2026-03-01T03:00:00|2026-03-01T04:00:00|3600|gres/gpu=1|n2|c1
COMPLETED|106+1|eve|phys|2026-03-01T03:00:00|2026-03-01T04:00:00|3600|cpu=4|n2|c1
COMPLETED|106+0.batch|eve|phys|2026-03-01T03:00:00|2026-03-01T04:00:00|3600|gres/gpu=1|n2|c1
COMPLETED|107|` + "m\xfcller" + `|phys|2026-03-01T05:00:00|2026-03-01T06:00:00|3600|gres/gpu:1g.10gb=2,gres/gpu=2|n2|c1
RUNNING|108|eve|phys|2026-03-01T05:00:00|Unknown|600|gres/gpu=1|n2|c1
COMPLETED|108|eve|phys|2026-03-01T05:00:00|2026-03-01T05:30:00|1800|gres/gpu=1|n2|c1
COMPLETED|109|eve|phys|2026-03-01T05:00:00|2026-03-01T05:30:00|1800|gres/gpu=x|n2|c1
COMPLETED|110|eve|phys|2026-03-01T05:00:00|2026-03-01T05:30:00|1800|gres/gpu=1,gres/gpu:a=2|n2|c1
COMPLETED|111|eve|phys|2026-03-01T05:00:00|2026-03-01T04:30:00|1800|gres/gpu=1|n2|c1
COMPLETED|112|eve|phys|2026-03-01T05:00:00
`

// shown is a record in one line.
func shown(records []Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, fmt.Sprintf("%d: %s %s/%s %s×%s@%s %s–%s", r.Line, r.Job, r.User, r.Account, gpuText(r.MilliGPUs),
			r.Model, r.Node, rfc3339(r.StartMS), rfc3339(r.EndMS)))
	}
	return out
}

func TestReadSacct(t *testing.T) {
	got, err := ReadSacct(strings.NewReader(sacctText),
		Reading{Zone: time.UTC, WindowFromMS: at(t, "2026-03-01"), WindowToMS: at(t, "2026-03-02")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"2: 100 alice/bio 4×a100@ 2026-03-01T22:00:00Z–2026-03-02T01:00:00Z",
		"3: 101_3 bob/phys 1×@ 2026-03-01T10:00:00Z–2026-03-01T11:00:00Z",
		"4: 102 bob/phys 2×a100@ 2026-03-01T23:00:00Z–2026-03-02T00:00:00Z",
		"4: 102 bob/phys 1×@ 2026-03-01T23:00:00Z–2026-03-02T00:00:00Z",
		"7: 105 eve/phys 2×@ 2026-03-01T01:00:00Z–2026-03-01T02:00:00Z",
		"8: 105 eve/phys 2×@ 2026-03-01T03:00:00Z–2026-03-01T04:00:00Z",
		"9: 106+0 eve/phys 1×@ 2026-03-01T03:00:00Z–2026-03-01T04:00:00Z",
		"12: 107 m[xFC]ller~26a45113/phys 2×1g.10gb@ 2026-03-01T05:00:00Z–2026-03-01T06:00:00Z",
		"14: 108 eve/phys 1×@ 2026-03-01T05:00:00Z–2026-03-01T05:30:00Z",
	}
	if diff := cmp.Diff(want, shown(got.Records)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Counts{NeverRan: 2, NoGPUs: 1, Steps: 1, Superseded: 1, InvalidText: 1}, got.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	var bad []string
	for _, b := range got.Bad {
		bad = append(bad, fmt.Sprintf("%d: %s", b.Line, b.Reason))
	}
	if diff := cmp.Diff([]string{
		`15: AllocTRES "gres/gpu=x": "gres/gpu=x" must be a number of GPUs`,
		`16: AllocTRES "gres/gpu=1,gres/gpu:a=2": the typed GPUs, 2, are more than all GPUs, 1`,
		"17: end 2026-03-01T04:30:00Z is before start 2026-03-01T05:00:00Z",
		"18: 5 fields, but the header has 10",
	}, bad); diff != "" {
		t.Errorf("bad lines (-want +got):\n%s", diff)
	}
}

// TestReadSacctWithoutAWindow: a job that runs still ends where it was seen last.
func TestReadSacctWithoutAWindow(t *testing.T) {
	got, err := ReadSacct(
		strings.NewReader("JobIDRaw|Start|End|ElapsedRaw|AllocTRES\n7|2026-03-01T00:00:00|Unknown|90|gres/gpu=1\n"),
		Reading{Zone: zone(t, "Europe/Berlin")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2: 7 / 1×@ 2026-02-28T23:00:00Z–2026-02-28T23:01:30Z"}, shown(got.Records)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestReadSacctByNode(t *testing.T) {
	text := `JobID|Start|End|AllocTRES|NodeList
1|2026-03-01T00:00:00|2026-03-01T01:00:00|gres/gpu=4|n[01-02]
2|2026-03-01T00:00:00|2026-03-01T01:00:00|gres/gpu=3|n[01-02]
3|2026-03-01T00:00:00|2026-03-01T01:00:00|gres/gpu=3|n[01
`
	got, err := ReadSacct(strings.NewReader(text), Reading{Zone: time.UTC, ByNode: true})
	if err != nil {
		t.Fatal(err)
	}
	hour := "2026-03-01T00:00:00Z–2026-03-01T01:00:00Z"
	if diff := cmp.Diff([]string{"2: 1 / 2×@n01 " + hour, "2: 1 / 2×@n02 " + hour, "3: 2 / 3×@ " + hour},
		shown(got.Records)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if len(got.Bad) != 1 || !strings.Contains(got.Bad[0].Reason, `NodeList: expand "n[01"`) {
		t.Errorf("bad lines: %+v", got.Bad)
	}
}

func TestReadSacctRefusesAFile(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "empty",
		"JobID|Start|End\n":                      "column alloctres is missing",
		"User|Start|End|AllocTRES\n":             "column jobid or jobidraw is missing",
		"JobID,Start,End,AllocTRES\n":            "column jobid or jobidraw is missing",
		"JobID|Start|AllocTRES\n1|2026-01-01|\n": "column end or elapsedraw is missing",
		"Cluster|JobID|Start|End|AllocTRES\na|1|2026-01-01|2026-01-02|gres/gpu=1\nb|1|2026-01-01|2026-01-02|gres/gpu=1\n": "clusters a, b",
	} {
		if _, err := ReadSacct(strings.NewReader(text), Reading{Zone: time.UTC}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzReadSacct(f *testing.F) {
	f.Add([]byte(sacctText), true)
	f.Add([]byte("JobID|JobName|Start|End|AllocTRES\n1|a|b|1|2|gres/gpu=1\n"), false)
	f.Add([]byte("JobID|Start|End|AllocTRES|NodeList\n1|1|2|gres/gpu:a=1,gres/gpu=3|n[1-2]\n"), true)
	f.Fuzz(func(t *testing.T, data []byte, byNode bool) {
		var got *File
		var err error
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(data)), func() {
			got, err = ReadSacct(bytes.NewReader(data), Reading{Zone: time.UTC, ByNode: byNode})
		})
		checkFile(t, got, err)
	})
}
