package explain_test

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/ingest/explain"
)

// gpuHour is a GPU in an hour of a worked case.
type gpuHour struct{ gpu, hour string }

// bucketSums are a GPU-hour's buckets by tenant, the platform's under "".
type bucketSums map[string]map[string]int64

var csvBuckets = []string{"active", "idle", "unproven", "free", "stranded", "unhealthy", "unobserved"}

func caseNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(casesDir, "*.jsonl"))
	if err != nil || len(files) < 13 {
		t.Fatalf("worked cases: %d files, %v", len(files), err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".jsonl")
	}
	return files
}

// readCase is what a case says of each of its GPU-hours.
func readCase(t *testing.T, name string) map[gpuHour]bucketSums {
	t.Helper()
	f, err := os.Open(filepath.Join(casesDir, name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[gpuHour]bucketSums{}
	for _, r := range records[1:] {
		key := gpuHour{r[1], r[0]}
		if out[key] == nil {
			out[key] = bucketSums{}
		}
		for i, bucket := range csvBuckets {
			n, err := strconv.ParseInt(r[3+i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			out[key].add(r[2], bucket, n)
		}
	}
	return out
}

func (b bucketSums) add(tenant, bucket string, n int64) {
	if n == 0 {
		return
	}
	if b[tenant] == nil {
		b[tenant] = map[string]int64{}
	}
	b[tenant][bucket] += n
}

// allCases is a house in which each worked case is a cluster of its name.
func allCases(t *testing.T) *house {
	t.Helper()
	h := newHouse(t)
	var all strings.Builder
	for _, name := range caseNames(t) {
		lines, err := os.ReadFile(filepath.Join(casesDir, name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(strings.ReplaceAll(string(lines), `"cluster": "k"`, `"cluster": "`+name+`"`) + "\n")
	}
	h.take(t, all.String(), true)
	return h
}

// TestWorkedCases explains every GPU-hour of every worked case: the lines sum
// to what the case says by hand, by the rules that it is about, and the
// explanation proves itself.
func TestWorkedCases(t *testing.T) {
	h := allCases(t)
	for _, name := range caseNames(t) {
		t.Run(name, func(t *testing.T) {
			for key, want := range readCase(t, name) {
				e, err := explain.Explain(t.Context(), h.db, explain.Request{GPU: key.gpu, Hour: at(t, key.hour), Cluster: name})
				if err != nil {
					t.Fatal(err)
				}
				got := bucketSums{}
				for _, l := range e.Lines {
					if l.Code == "why?" || l.Code == "not_stored" && l.SliceMS > 0 || l.Why == "" {
						t.Errorf("%v: a line without a reason: %+v", key, l)
					}
					got.add(l.Tenant, l.Bucket, l.SliceMS)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v: buckets (-want +got):\n%s", key, diff)
				}
				if !e.Proof.OK || len(e.Summary) == 0 || e.Raw != explain.RawKept {
					t.Errorf("%v: proof: got %+v, raw %s", key, e.Proof, e.Raw)
				}
				checkText(t, text(t, e))
			}
		})
	}
	for _, c := range wantReasons {
		e, err := explain.Explain(t.Context(), h.db, explain.Request{GPU: c.gpu, Hour: at(t, c.hour), Cluster: c.name})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, reasons(e)); diff != "" {
			t.Errorf("reasons of %s, %s, %s (-want +got):\n%s", c.name, c.gpu, c.hour, diff)
		}
	}
	_, err := explain.Explain(t.Context(), h.db, explain.Request{GPU: "GPU-a", Hour: at(t, "2026-03-01T00:00:00Z")})
	if want := "name the cluster: r10_gap_over_the_hour, "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a GPU in many clusters: got %v, want %q", err, want)
	}
}

// checkText holds the text to its terminal; a name may stand alone on a line.
func checkText(t *testing.T, got string) {
	t.Helper()
	for line := range strings.Lines(got) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 100 {
			t.Errorf("longer than 100 columns: %q", line)
		}
	}
}

// reasons are the distinct reasons of the lines that have time, in bucket/code form.
func reasons(e *explain.Explanation) []string {
	var out []string
	for _, l := range e.Lines {
		reason := l.Bucket + " " + l.Code
		if l.SliceMS > 0 && !slices.Contains(out, reason) {
			out = append(out, reason)
		}
	}
	slices.Sort(out)
	return out
}

// wantReasons are the reasons of telling GPU-hours.
var wantReasons = []struct {
	name, gpu, hour string
	want            []string
}{
	{"r12_three_owners", "GPU-a", "2026-03-01T00:00:00Z", []string{"idle quiet", "unproven held_partly"}},
	{"r10_gap_over_the_hour", "GPU-a", "2026-03-01T00:00:00Z", []string{"active activity", "unproven inferred"}},
	{"r10_gap_over_the_hour", "GPU-a", "2026-03-01T01:00:00Z", []string{"active activity", "unobserved no_batch"}},
	{"r10_gap_over_the_hour", "GPU-b", "2026-03-01T01:00:00Z", []string{"free not_held", "unobserved no_batch"}},
	{"r9_mig", "GPU-m", "2026-03-01T00:00:00Z", []string{
		"active activity", "free not_held", "idle mig_other_works", "idle quiet", "stranded uncovered", "unhealthy flagged",
		"unproven held_partly", "unproven mig_no_activity", "unproven mig_unproven",
	}},
	{"r13_evidence", "GPU-a", "2026-03-01T00:00:00Z", []string{
		"active activity", "active gpu_util", "free not_held", "idle quiet", "unproven contradictory", "unproven held_partly",
		"unproven one_signal", "unproven shared_work",
	}},
	{"r13_parked", "GPU-p", "2026-03-01T00:00:00Z", []string{
		"active activity", "idle parked", "unproven contradictory", "unproven one_signal",
	}},
	{"r16_energy", "GPU-m", "2026-03-01T00:00:00Z", []string{
		"active activity", "free not_held", "free unowned_work", "stranded uncovered",
	}},
}

func TestGoldens(t *testing.T) {
	for _, c := range []struct{ name, gpu, hour string }{
		{"r12_three_owners", "GPU-a", "2026-03-01T00:00:00Z"},
		{"r10_gap_over_the_hour", "GPU-a", "2026-03-01T00:00:00Z"},
		{"r9_mig", "GPU-m", "2026-03-01T00:00:00Z"},
		{"r16_energy", "GPU-m", "2026-03-01T00:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.takeCase(t, c.name)
			e := h.explain(t, c.gpu, c.hour)
			golden(t, c.name+".txt", text(t, e))
			document, err := json.MarshalIndent(e, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".json", string(document)+"\n")
		})
	}
}
