package imports

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"

	"github.com/gputally/gputally/internal/costtest"
)

func at(t testing.TB, text string) int64 {
	t.Helper()
	ms, err := ParseTime(text, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func mustColumns(t testing.TB, text string) Columns {
	t.Helper()
	c, err := ParseColumns(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const traceCSV = `job_id,vc,user,start_time,end_time,gpu_num
1,vcA,u1,2020-04-01 08:00:00,2020-04-01 10:30:00,8
2,vcB,u2,2020-04-01 09:00:00,2020-04-01 09:30:00,0.5
3,vcB,u2,,2020-04-01 09:30:00,1
4,vcB,u2,2020-04-01 09:00:00,2020-04-01 09:00:00,1
5,vcB,u2,2020-04-01 09:00:00,2020-04-01 10:00:00,0
1,vcA,u1,2020-04-01 08:00:00,2020-04-01 10:30:00,8
2,vcB,u2,2020-04-01 09:00:00,2020-04-01 09:45:00,0.5
`

const traceColumns = "job=job_id,tenant=vc,start=start_time,end=end_time,gpus=gpu_num"

func TestReadAllocations(t *testing.T) {
	want := []Record{
		{
			Line: 2, Job: "1", Tenant: "vcA", User: "u1", MilliGPUs: 8000, StartMS: at(t, "2020-04-01T00:00:00Z"),
			EndMS: at(t, "2020-04-01T02:30:00Z"),
		},
		{
			Line: 3, Job: "2", Tenant: "vcB", User: "u2", MilliGPUs: 500, StartMS: at(t, "2020-04-01T01:00:00Z"),
			EndMS: at(t, "2020-04-01T01:30:00Z"),
		},
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("\xef\xbb\xbf" + traceCSV)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text      string
		delimiter rune
	}{
		"commas":                      {traceCSV, ','},
		"packed, with a mark":         {packed.String(), ','},
		"semicolons":                  {strings.ReplaceAll(traceCSV, ",", ";"), ';'},
		"tabs, found out":             {strings.ReplaceAll(traceCSV, ",", "\t"), 0},
		"lines that end as on a disk": {strings.ReplaceAll(traceCSV, "\n", "\r\n"), ','},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadAllocations(strings.NewReader(c.text),
				Reading{Columns: mustColumns(t, traceColumns), Zone: zone(t, "Asia/Shanghai"), Delimiter: c.delimiter})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Records,
				cmp.Comparer(func(a, b Record) bool { return a.Line == b.Line && a.content() == b.content() })); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(Counts{NeverRan: 2, NoGPUs: 1, Copies: 1}, got.Counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if len(got.Bad) != 1 || got.Bad[0].Line != 8 || !strings.Contains(got.Bad[0].Reason,
				`job "2" from 2020-04-01T01:00:00Z: contradicts line 3`) {
				t.Errorf("bad lines: %+v", got.Bad)
			}
		})
	}
}

func TestReadAllocationsOfJSONLines(t *testing.T) {
	file := `{"vc":"a","start":1583020800,"end":1583024400.25,"gpus":1.5,"extra":{"x":1}}
{"vc":"b","start":"2020-03-01T00:00:00Z","end":null,"device":["GPU-2","GPU-1"]}

{"vc":"c","start":"2020-03-01T00:00:00Z","duration":60,"device":"GPU-3","gpus":1}
[1]
{"vc":"d","start":"2020-03-01T00:00:00Z","end":"2020-03-01T01:00:00Z","device":"GPU-3","gpus":0.5}
`
	how := Reading{
		Columns: mustColumns(t, "tenant=vc"), Zone: time.UTC, WindowFromMS: at(t, "2020-03-01"),
		WindowToMS: at(t, "2020-03-02"),
	}
	got, err := ReadAllocations(strings.NewReader(file), how)
	if err != nil {
		t.Fatal(err)
	}
	start := at(t, "2020-03-01")
	want := []Record{
		{Line: 1, Tenant: "a", MilliGPUs: 1500, StartMS: start, EndMS: start + 3_600_250},
		{Line: 2, Tenant: "b", MilliGPUs: 2000, Devices: []string{"GPU-1", "GPU-2"}, StartMS: start, EndMS: how.WindowToMS},
		{Line: 4, Tenant: "c", MilliGPUs: 1000, Devices: []string{"GPU-3"}, StartMS: start, EndMS: start + 60_000},
	}
	if diff := cmp.Diff(want, got.Records,
		cmp.Comparer(func(a, b Record) bool { return a.Line == b.Line && a.content() == b.content() })); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if len(got.Bad) != 2 || got.Bad[0].Line != 5 || !strings.Contains(got.Bad[1].Reason,
		`gpus "0.5": must equal the number of named devices, 1`) {
		t.Errorf("bad lines: %+v", got.Bad)
	}
}

// TestReadAllocationsNamesWhatIsWrong: the row stays out, the reason names the
// field and its value.
func TestReadAllocationsNamesWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"a,soon,2020-03-01,1":                       `start: time "soon"`,
		"a,2020-03-01,later,1":                      `end: time "later"`,
		"a,2020-03-01,,1":                           "end: missing",
		"a,2020-03-02,2020-03-01,1":                 "end 2020-02-29T23:00:00Z is before start 2020-03-01T23:00:00Z",
		"a,2020-03-01,2020-03-02,0.0001":            `gpus "0.0001": must have at most three`,
		"a,2020-03-01,2020-03-02,many":              `gpus "many"`,
		"a,2020-03-01,2020-03-02,":                  "gpus: must not be empty",
		"a,2020-03-01,2020-03-02":                   "3 fields, but the header has 4",
		`a,"2020-03-01,2020-03-02,1`:                `extraneous or missing " in quoted-field`,
		"a,2020-03-29 02:30:00,2020-03-29 04:00,1":  "no such local time",
		"a,2020-03-01,2020-03-02,1000000.5":         "at most 1000000",
		"a,2020-03-01,2020-03-02,\xff\xfe":          `gpus "`,
		"a,9999999999999,2020-03-02,1":              `start: time "9999999999999"`,
		"a,2020-03-01T00:00:00Z,2020-03-01T00:00,1": "",
	} {
		got, err := ReadAllocations(strings.NewReader("tenant,start,end,gpus\n"+line+"\n"),
			Reading{Zone: zone(t, "Europe/Berlin"), Delimiter: ','})
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		if want == "" { // local midnight is before the one of UTC
			want = "is before start"
		}
		if len(got.Records) != 0 || len(got.Bad) != 1 || got.Bad[0].Line != 2 || !strings.Contains(got.Bad[0].Reason, want) {
			t.Errorf("%q: got %+v, bad %+v; want a reason with %q", line, got.Records, got.Bad, want)
		}
	}
}

func TestReadAllocationsRefusesAFile(t *testing.T) {
	for name, c := range map[string]struct{ columns, file, want string }{
		"nothing": {"", "", "empty"},
		"no such column": {
			"tenant=vc", "start,end,gpus\n",
			"tenant=vc: the header has no such column (it has start, end, gpus)",
		},
		"no start":                {"", "end,gpus\n", "start: no column"},
		"no end":                  {"", "start,gpus\n", "end: no column"},
		"no gpus":                 {"", "start,end\n", "gpus: no column"},
		"two ends":                {"end=end,duration=d", "start,end,d,gpus\n", "end and duration are both mapped"},
		"a column twice":          {"", "start,end,end,gpus\n", `there are two columns "end"`},
		"a field that never came": {"tenant=vc", "{\"start\":1,\"end\":2,\"gpus\":1}\n", "tenant=vc: no line of the file has that field"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadAllocations(strings.NewReader(c.file),
				Reading{Columns: mustColumns(t, c.columns), Zone: time.UTC, Delimiter: ','})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	for text, want := range map[string]string{
		"tenant": "NAME=COLUMN", "colour=x": `"colour": NAME must be one of`,
		"job=a,workload=b": "mapped twice", "end=": "NAME=COLUMN",
	} {
		if _, err := ParseColumns(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("columns %q: got %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzReadAllocations(f *testing.F) {
	f.Add([]byte(traceCSV), int32(','))
	f.Add([]byte(`{"start":1583020800,"end":1583024400.25,"gpus":1.5,"device":["a","b"]}`), int32(0))
	f.Add([]byte("\xef\xbb\xbfstart;end;gpus\n1;2;\"0.5\n"), int32(';'))
	f.Add([]byte{0x1f, 0x8b, 8, 0}, int32(','))
	f.Fuzz(func(t *testing.T, data []byte, delimiter int32) {
		how := Reading{
			Zone: zone(t, "America/New_York"), Delimiter: delimiter,
			WindowToMS: 4_000_000_000_000 - 4_000_000_000_000%3_600_000,
		}
		var got *File
		var err error
		// A packed byte may be a thousand.
		costtest.Within(t, costtest.Time,
			64<<20+512<<10*uint64(len(data)), func() { got, err = ReadAllocations(bytes.NewReader(data), how) })
		checkFile(t, got, err)
	})
}

// checkFile holds what was read to what a plan relies on.
func checkFile(t *testing.T, got *File, err error) {
	t.Helper()
	if err != nil {
		return
	}
	for i := range got.Records {
		r := &got.Records[i]
		if r.StartMS < wire.MinTimeMS || r.EndMS <= r.StartMS || r.EndMS >= wire.MaxTimeMS || r.MilliGPUs == 0 ||
			r.MilliGPUs > maxGPUs*1000 || r.Line == 0 {
			t.Errorf("record %+v", r)
		}
		if text := strings.Join([]string{r.Job, r.Tenant, r.User, r.Account, r.Node},
			""); text != strings.ToValidUTF8(text, "") {
			t.Errorf("record %+v is not UTF-8", r)
		}
	}
}
