package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

// focusRows are the rows of a FOCUS export by their columns.
func focusRows(t *testing.T, data, period string) (rows []map[string]string) {
	t.Helper()
	path := strings.TrimSpace(programtest.MustInvoke(t, "export", "focus", "--data", data, "--period", period))
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// billedBy sums the billed cost by invoice.
func billedBy(t *testing.T, rows []map[string]string) map[string]string {
	t.Helper()
	sums := map[string]decimal.Decimal{}
	for _, row := range rows {
		if number := row["InvoiceId"]; number != "" {
			sums[number] = sums[number].Add(decimal.RequireFromString(row["BilledCost"]))
		}
	}
	texts := map[string]string{}
	for number, sum := range sums {
		texts[number] = sum.StringFixed(2)
	}
	return texts
}

func showInvoice(t *testing.T, data, tenant, revision string) (string, invoice.Invoice) {
	t.Helper()
	text := programtest.MustInvoke(t, "invoice", "show", "--data", data, "--period", "2026-03", "--tenant", tenant,
		"--revision", revision, "--output", "json")
	var document invoice.Invoice
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return text, document
}

// R20, R17, R15 through the commands: a month is finalised; data that comes late
// make a credit note and rows of correction, a new mapping one credit and one
// debit of equal list value; the invoices stay byte for byte, and all follows
// from what they keep.
func TestFinalisedMonthsAreCorrectedByNotes(t *testing.T) {
	data := programtest.NewFleet(t)
	finalised := programtest.MustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03", "--output", "csv")
	for _, number := range []string{"2026-03-team-a-r0", "2026-03-team-b-r0"} {
		if !strings.Contains(finalised, number) {
			t.Fatalf("finalised %q, want %s in it", finalised, number)
		}
	}
	original, invoiceA := showInvoice(t, data, "team-a", "0")
	march := billedBy(t, focusRows(t, data, "2026-03"))
	if march["2026-03-team-a-r0"] != invoiceA.Total.String() {
		t.Errorf("FOCUS rows of the invoice sum to %s, want %s", march["2026-03-team-a-r0"], invoiceA.Total)
	}

	programtest.MustImport(t, data, programtest.WriteLines(t, programtest.FleetLinesUnheld(t, 2000, 60, 90, "n1")))
	pending := programtest.MustInvoke(t, "invoice", "adjustments", "--data", data, "--period", "2026-03",
		"--output", "csv")
	if !strings.Contains(pending, "2026-03-team-a-r1") || !strings.Contains(pending,
		"late or corrected data: the hour 2026-03-01T01:00:00Z") || strings.Contains(pending, "team-b") {
		t.Errorf("pending adjustments %q, want team-a's second hour", pending)
	}
	programtest.MustInvoke(t, "invoice", "note", "--data", data, "--period", "2026-03", "--tenant", "team-a",
		"--by", "finance")
	_, credit := showInvoice(t, data, "team-a", "1")
	if credit.Kind != invoice.KindCreditNote || credit.GPUHours.String() != "-0.500000000" || !strings.HasPrefix(
		credit.Total.String(), "-") {
		t.Errorf("note %+v, want half a GPU-hour of credit", credit)
	}
	if again, _ := showInvoice(t, data, "team-a", "0"); again != original {
		t.Errorf("the original changed (-before +after):\n%s", cmp.Diff(original, again))
	}
	if diff := cmp.Diff(march, billedBy(t, focusRows(t, data, "2026-03"))); diff != "" {
		t.Errorf("FOCUS rows of March changed (-before +after):\n%s", diff)
	}
	billing := time.Now().UTC().Format("2006-01")
	corrections := focusRows(t, data, billing)
	if diff := cmp.Diff(map[string]string{"2026-03-team-a-r1": credit.Total.String()},
		billedBy(t, corrections)); diff != "" {
		t.Errorf("FOCUS rows of %s (-want +got):\n%s", billing, diff)
	}
	for _, row := range corrections {
		if row["InvoiceId"] != "" && (row["ChargeClass"] != "Correction" ||
			!strings.HasPrefix(row["ChargePeriodStart"], "2026-03")) {
			t.Errorf("row of a note %v, want a correction of March", row)
		}
	}

	placetest.WriteFile(t, filepath.Join(data, "tenants.yaml"), `versions:
- effective: 2026-01-01T00:00:00Z
  rules:
  - {match: {namespace: team-b}, tenant: team-b}
  - {match: {namespace: team-a}, tenant: team-a}
- effective: 2026-03-01T02:00:00Z
  rules:
  - {match: {namespace: team-*}, tenant: team-a}
`)
	placetest.WriteFile(t, filepath.Join(data, "gputally.yaml"), "ledger: {tenants_file: tenants.yaml}\n")
	programtest.WithLedger(t, data, func(p *app.Pipeline) { // a service that starts takes the new mapping
		if err := p.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	var found []invoice.Adjustment
	if err := json.Unmarshal([]byte(programtest.MustInvoke(t, "invoice", "adjustments", "--data", data, "--period",
		"2026-03", "--output", "json")), &found); err != nil {
		t.Fatal(err)
	}
	var notes []string
	list := decimal.Zero
	for _, a := range found {
		notes = append(notes, fmt.Sprintf("%s %s %s", a.Note.Number, a.Note.Kind, strings.SplitN(a.Reason, ":", 2)[0]))
		list = list.Add(a.Note.Effects.List)
		programtest.MustInvoke(t, "invoice", "note", "--data", data, "--period", "2026-03", "--tenant", a.Note.Tenant)
	}
	want := []string{
		"2026-03-team-a-r2 debit_note tenant mapping or metering rules changed",
		"2026-03-team-b-r1 credit_note tenant mapping or metering rules changed",
	}
	if diff := cmp.Diff(want, notes); diff != "" || !list.IsZero() {
		t.Errorf("adjustments (-want +got):\n%s, list values sum to %s", diff, list)
	}
	for _, number := range []string{
		"2026-03-team-a-r0", "2026-03-team-a-r1", "2026-03-team-a-r2", "2026-03-team-b-r0",
		"2026-03-team-b-r1",
	} {
		if verdict := programtest.MustInvoke(t, "invoice", "verify", number, "--data", data, "--output",
			"csv"); !strings.Contains(verdict, "same bytes") {
			t.Errorf("verify %s: %s", number, verdict)
		}
	}
	checks := programtest.MustVerify(t, data)
	if figures := checks.Checks["C8"].Figures; !strings.Contains(figures, "5 finalised invoices and notes recomputed") {
		t.Errorf("C8 = %q, want 5 documents", figures)
	}
}

// The chain of what was decided can be noted and compared later.
func TestAuditShowsWhatWasDecidedAndItsChain(t *testing.T) {
	data := programtest.NewFleet(t)
	programtest.MustInvoke(t, "invoice", "finalise", "--data", data, "--period", "2026-03", "--tenant", "team-a",
		"--by", "finance")
	book := filepath.Join(t.TempDir(), "prices.yaml")
	placetest.WriteFile(t, book,
		"currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {NVIDIA H100 80GB HBM3: {gpu_hour: "+
			"\"3.00\"}}\n")
	said := programtest.MustInvoke(t, "prices", "load", book, "--data", data, "--by", "finance")
	for _, want := range []string{
		"prices.yaml is in force", "gpu_hour", "past", "calculated with: 1 month, the last is 2026-03",
		"reservations of hours before 2026-04-01T00:00:00Z are frozen: this book does not change them",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("prices load said %q, want %q in it", said, want)
		}
	}
	for period, frozen := range map[string]bool{"2026-03": true, "2026-02": false, "2026-04": false} {
		got := programtest.Invoke(t, "prices", "simulate", "--data", data, "--period", period, "--prices", book)
		if got.Code != cli.ExitOK || strings.Contains(got.Stderr, "frozen") != frozen {
			t.Errorf("simulating %s: got %+v, want frozen hours mentioned: %t", period, got, frozen)
		}
	}
	if said := programtest.MustInvoke(t, "prices", "load", book, "--data", data); !strings.Contains(said,
		"in force already") {
		t.Errorf("loading it again said %q", said)
	}
	edited := filepath.Join(t.TempDir(), "gputally.yaml")
	placetest.WriteFile(t, edited, "billing: {prices: "+book+"}\n")
	list := []string{"invoice", "list", "--data", data, "--period", "2026-03", "--config", edited}
	if got := programtest.Invoke(t, list...); strings.Contains(got.Stderr, "not the price book in force") {
		t.Errorf("the published file: got %+v, want no warning", got)
	}
	placetest.WriteFile(t, book,
		"currency: USD\nversions:\n- effective: 2026-01-01T00:00:00Z\n  models: {NVIDIA H100 80GB HBM3: {gpu_hour: "+
			"\"4.00\"}}\n")
	if got := programtest.Invoke(t, list...); got.Code != cli.ExitOK || !strings.Contains(got.Stderr,
		"billing.prices is not the price book in force") {
		t.Errorf("an edited file: got %+v, want a warning that it counts for nothing", got)
	}
	records, err := csv.NewReader(strings.NewReader(programtest.MustInvoke(t, "audit", "--data", data, "--output",
		"csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, record := range records[1:] {
		kinds = append(kinds, record[2]+" "+record[3])
	}
	if len(kinds) != 7 || kinds[3] != "mapping gputally" || kinds[5] != "invoice finance" ||
		kinds[6] != "price_book finance" {
		t.Errorf("decisions %q, want the import's run and its end, a book, the mapping, a freeze, finance's invoice "+
			"and book", kinds)
	}
	last := records[len(records)-1]
	programtest.MustInvoke(t, "audit", "--data", data, "--expect", last[0]+"="+last[6])
	other := strings.Repeat("0", 64)
	if got := programtest.Invoke(t, "audit", "--data", data, "--expect",
		last[0]+"="+other); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "something up to there was changed") {
		t.Errorf("another chain: got %+v", got)
	}
	if got := programtest.Invoke(t, "audit", "--data", data, "--expect", "x=y"); got.Code != cli.ExitUsage {
		t.Errorf("no chain: got %+v", got)
	}
	if drafted := programtest.MustInvoke(t, "invoice", "list", "--data", data, "--period", "2026-03", "--output",
		"csv"); !strings.Contains(drafted, "draft,USD,") || !strings.Contains(drafted, "finalised,USD,") {
		t.Errorf("a month of two books: %q", drafted)
	}
	if simulated := programtest.MustInvoke(t, "prices", "simulate", "--data", data, "--period", "2026-03", "--output",
		"csv"); !strings.Contains(simulated, "team-a,6,18,") {
		t.Errorf("the book in force is not the published one: %q", simulated)
	}
	if explained := programtest.MustInvoke(t, "explain", "--data", data, "--gpu", "GPU-n1-0", "--hour",
		"2026-03-01T00:00:00Z"); !strings.Contains(explained, "list rate 3 USD per GPU-hour; prices.yaml") {
		t.Errorf("explained by another book: %s", explained)
	}
	if explained := programtest.Invoke(t, "explain", "--data", data, "--invoice", "2026-03-team-a-r0", "--line",
		"1"); explained.Code != cli.ExitOK ||
		!strings.Contains(explained.Stderr, "this is the largest") || !strings.Contains(explained.Stdout, "team-a") {
		t.Errorf("explain by an invoice's line: got %+v", explained)
	}
	programtest.Alter(t, data, "ALTER TABLE invoices UPDATE gpu_hours = gpu_hours + 1 WHERE 1 SETTINGS mutations_sync = 2")
	if got := programtest.VerifyLedger(t, data); got.Code != cli.ExitFailed || !strings.Contains(got.Findings("R6"),
		"2026-03-team-a-r0") {
		t.Errorf("a changed copy: got %+v", got.Checks["R6"])
	}
	programtest.MustInvoke(t, "audit", "rebuild", "--data", data)
	if got := programtest.VerifyLedger(t, data); len(got.Checks["R6"].Findings) > 0 {
		t.Errorf("after a rebuild: got %+v", got.Checks["R6"])
	}
}

// R3, R20: what is not closed, not there, or not to be corrected is refused by
// name, with nothing decided.
func TestInvoiceCommandsRefuseByName(t *testing.T) {
	data := programtest.NewFleet(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{
			[]string{"invoice", "finalise", "--period", time.Now().UTC().Format("2006-01")},
			cli.ExitFailed,
			"are not closed yet: late data may come until",
		},
		{
			[]string{"invoice", "finalise", "--period", "2026-03", "--tenant", "nobody"},
			cli.ExitFailed,
			`2026-03: no invoice of tenant "nobody"`,
		},
		{
			[]string{"invoice", "finalise", "--period", "2026-02"},
			cli.ExitFailed,
			"2026-02: no invoice: the ledger has no hour of the month",
		},
		{
			[]string{"invoice", "finalise", "--period", "2026-03", "--key", "k"},
			cli.ExitUsage,
			"--key and --expect are for one invoice",
		},
		{[]string{"invoice", "note", "--period", "2026-03", "--tenant", "team-a"}, cli.ExitFailed, "is finalised"},
		{[]string{"invoice", "verify", "2026-03-team-a-r0"}, cli.ExitFailed, `"2026-03-team-a-r0": no invoice`},
		{[]string{"invoice", "evidence", "2026-03-team-a-r0", "0"}, cli.ExitUsage, `LINE "0": want a number`},
		{
			[]string{"invoice", "show", "--period", "2026-03", "--tenant", "team-a", "--revision", "3"},
			cli.ExitUsage,
			"has revisions 0 to 0",
		},
	} {
		if got := programtest.Invoke(t,
			append(c.args, "--data", data)...); got.Code != c.code || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%v: got %+v, want %d and %q", c.args, got, c.code, c.want)
		}
	}
	if decided := programtest.MustInvoke(t, "audit", "--data", data, "--parts", "--output", "csv"); strings.Count(decided,
		"\n") != 3 { // the import's run and its end
		t.Errorf("something was decided: %q", decided)
	}
}
