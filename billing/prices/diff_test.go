package prices

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parseBook(t *testing.T, text string) *Book {
	t.Helper()
	book, err := Parse("b.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// lines are changes as text, for comparing.
func lines(changes []Change) []string {
	value := func(v *string) string {
		if v == nil {
			return "-"
		}
		return *v
	}
	at := func(hour time.Time) string {
		if hour.IsZero() {
			return "-"
		}
		return hour.Format("2006-01-02T15")
	}
	var list []string
	for _, c := range changes {
		line := []string{at(c.From), at(c.Until), c.Key.String(), value(c.Old), value(c.New), c.Percent}
		if c.Past {
			line = append(line, "past")
		}
		list = append(list, strings.Join(line, " "))
	}
	return list
}

func TestDiffNamesWhatChangesFromWhichHour(t *testing.T) {
	old := parseBook(t, full)
	changed := strings.NewReplacer(
		`"2.49"`, `"2.99"`, `1g.10gb: "0.40"`, `2g.20gb: "0.70"`, `minimum: "500.00"`, `minimum: "500"`,
		`gpus: "4"`, `gpus: "5"`, "Europe/Berlin", "Europe/Paris", `kwh: "0.28"`, `kwh: "0.00"`,
		`H100: {gpu_hour: "2.00"}`, `H100: {gpu_hour: "2.10"}`,
	).Replace(full)
	got := lines(Diff(old, parseBook(t, changed), time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)))
	want := []string{
		"- - tenants.ml-train.time_zone Europe/Berlin Europe/Paris  past",
		"2026-01-01T00 2026-02-01T00 kwh 0.28 0 -100.0 past",
		"2026-01-01T00 2026-02-01T00 models.H100.gpu_hour 2.49 2.99 20.1 past",
		"2026-01-01T00 2026-02-01T00 models.H100.profiles.2g.20gb - 0.7  past",
		"2026-01-01T00 2026-02-01T00 models.H100.profiles.1g.10gb 0.4 -  past",
		"2026-01-01T00 2026-02-01T00 tenants.ml-train.reserved.H100.gpus 4 5 25.0 past",
		"2026-02-01T00 - models.H100.gpu_hour 2 2.1 5.0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestDiffComparesWhatIsInForce(t *testing.T) {
	const head = "currency: USD\nversions:\n"
	const one = head + "- {effective: 2026-01-01T00:00:00Z, models: {A: {gpu_hour: \"1\"}}}\n"
	const cut = one + "- {effective: 2026-03-01T00:00:00Z, models: {A: {gpu_hour: \"1.0\"}}}\n"
	const dearer = one + "- {effective: 2026-02-01T00:00:00Z, models: {A: {gpu_hour: \"2\"}}}\n"
	if got := lines(Diff(parseBook(t, one), parseBook(t, cut), time.Time{})); got != nil {
		t.Errorf("a version cut in two is a change: %v", got)
	}
	// The new version goes on over the old book's March: one change, open.
	if diff := cmp.Diff([]string{"2026-02-01T00 - models.A.gpu_hour 1 2 100.0"},
		lines(Diff(parseBook(t, cut), parseBook(t, dearer), time.Time{}))); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	later := strings.Replace(one, "2026-01-01", "2026-01-02", 1)
	got := lines(Diff(parseBook(t, one), parseBook(t, later), time.Time{}))
	if len(got) != 4 || got[3] != "2026-01-01T00 2026-01-02T00 models.A.gpu_hour 1 - " {
		t.Errorf("a day without a version: %q", got)
	}
}

func TestDocumentIsTheNormalForm(t *testing.T) {
	book := parseBook(t, full)
	reordered := parseBook(t, strings.NewReplacer(
		`{above: "1100", gpu_hour: "2.00"}, {above: "1000", gpu_hour: "2.20"}`, `{above: "1000.0", gpu_hour: "2.2"}, {above: "1100", gpu_hour: "2"}`,
		"skus: {Small: {profile: 1g.10gb}, Large: {gpus: 1}}", "skus: {Large: {gpus: 1}, Small: {profile: 1g.10gb}}",
	).Replace(full))
	got, want := reordered.Document(), book.Document()
	if got.SHA256 == want.SHA256 {
		t.Error("another text has the same hash")
	}
	got.SHA256 = want.SHA256
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	first, minimum := want.Versions[0], want.Versions[0].Tenants[0].Minimum
	if !first.Until.Equal(book.Versions[1].Effective) || minimum.String() != "500" || !want.Versions[1].Until.IsZero() {
		t.Errorf("document = %+v", want)
	}
}

func TestWarningsNameWhatIsHardlyMeant(t *testing.T) {
	const head = "currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n"
	const plain = "  models: {NVIDIA H100 80GB HBM3: {gpu_hour: \"7\"}}\n"
	const next = "- effective: 2026-02-01T00:00:00Z\n"
	for _, c := range []struct{ text, want string }{
		{
			head + "  models: {NVIDIA H100 80GB HBM3: {gpu_hour: \"7\", profiles: {1g.10gb: \"1.0001\", 3g.40gb: \"3.5\"}}}\n",
			`2026-01-01T00:00:00Z: models."NVIDIA H100 80GB HBM3".profiles: dearer than the larger of their compute and memory share: 1g.10gb (1.0001 for 1/7 of the GPU, which is 1)`,
		},
		{
			head + "  models: {NVIDIA H100 80GB HBM3: {gpu_hour: \"7\", profiles: {1g.5gb: \"1\"}}}\n",
			`profiles.1g.5gb: H100 80GB has no such profile (it has 1g.10gb, 1g.20gb,`,
		},
		{
			head + "  models: {A: {gpu_hour: \"2\", tiers: [{above: \"1\", gpu_hour: \"1\"}, {above: \"2\", gpu_hour: \"1.5\"}]}}\n",
			`models.A.tiers.above 2: 1.5 is dearer than 1, the rate before it`,
		},
		{
			head + "  models: {A: {gpu_hour: \"0\"}}\n",
			`models.A.gpu_hour: is zero`,
		},
		{
			head + "  models: {A: {gpu_hour: \"2\"}}\n  tenants: {a: {reserved: [{model: A, gpus: \"0\", unused_gpu_hour: \"1\"}]}}\n",
			`tenants.a.reserved.A.gpus: is zero`,
		},
		{
			head + "  models: {A: {gpu_hour: \"2\"}}\n  tenants: {a: {reserved: [{model: A, gpus: \"1\", unused_gpu_hour: \"3\"}]}}\n",
			`tenants.a.reserved.A.unused_gpu_hour: 3 is dearer than 2`,
		},
		{
			head + plain + "  tenants: {a: {}}\n",
			`tenants.a: has no terms`,
		},
		{
			head + plain + next + "  models: {A: {gpu_hour: \"1\"}}\n",
			`2026-02-01T00:00:00Z: models."NVIDIA H100 80GB HBM3".gpu_hour: has no rate from here on`,
		},
		{
			head + plain + "  tenants: {a: {minimum: \"5\"}}\n" + next + plain,
			`2026-02-01T00:00:00Z: tenants.a.minimum: was 5 until here`,
		},
		{
			head + plain + next + plain + "  tenants: {a: {minimum: \"5\"}}\n",
			`tenants.a.minimum: starts here`,
		},
		{
			head + plain + "  tenants: {a: {discount: \"0.1\"}}\n" + next + plain,
			`tenants.a: had terms until here`,
		},
		{
			head + plain + next + plain,
			`2026-02-01T00:00:00Z: version: says what the one before it says`,
		},
		{
			strings.Replace(head, "2026", "2027", 1) + plain,
			`versions: the first version starts at 2027-01-01T00:00:00Z`,
		},
	} {
		warnings := parseBook(t, c.text).Warnings(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
		if len(warnings) != 1 || !strings.Contains(warnings[0].String(), c.want) {
			t.Errorf("warnings of\n%s= %v\nwant one: %s", c.text, warnings, c.want)
		}
	}
	if warnings := parseBook(t, head+plain).Warnings(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)); warnings != nil {
		t.Errorf("a plain book: %v", warnings)
	}
}
