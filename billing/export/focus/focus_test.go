package focus_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/export/focus"
	"github.com/gputally/gputally/billing/export/focus/focuscheck"
	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/usage"
)

// table is a file read again, by column.
type table []row

type row map[string]string

func read(t testing.TB, file []byte) table {
	t.Helper()
	records, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows table
	for _, record := range records[1:] {
		row := row{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// sum adds up a column of the rows where columns have values.
func (rows table) sum(t testing.TB, column string, where map[string]string) decimal.Decimal {
	t.Helper()
	total := decimal.Zero
	for _, row := range rows {
		if row[column] == "" || !row.matches(where) {
			continue
		}
		value, err := decimal.NewFromString(row[column])
		if err != nil {
			t.Fatal(err)
		}
		total = total.Add(value)
	}
	return total
}

func (r row) matches(where row) bool {
	for column, value := range where {
		if r[column] != value {
			return false
		}
	}
	return true
}

// subAccount is a tenant's id as encoding/csv reads it: CR LF within quotes as
// LF.
func subAccount(tenant string) string { return usage.TextCell("tenant/" + tenant) }

func write(t testing.TB, options focus.Options, bills ...focus.Bill) (table, focus.Summary) {
	t.Helper()
	var out bytes.Buffer
	summary, err := focus.Write(&out, options, of(bills...))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, out.Bytes()), summary
}

// Every worked case of the contract: rows sum to the invoices, and whole-GPU
// list costs to the list value of tenants, platform and quantity rounding.
func TestContractCasesSumExactly(t *testing.T) {
	const contract = "../../../testdata/contract/money"
	files, err := filepath.Glob(filepath.Join(contract, "*.csv"))
	if err != nil || len(files) != 20 {
		t.Fatalf("found %d cases, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".csv")
		t.Run(name, func(t *testing.T) {
			book, err := prices.Load(strings.TrimSuffix(file, ".csv") + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			usage, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer usage.Close()
			rows, err := rating.ReadCSV(usage)
			if err != nil {
				t.Fatal(err)
			}
			assertSums(t, rate(t, book, "2026-03", rows))
		})
	}
}

func assertSums(t *testing.T, month *rated) {
	t.Helper()
	var bills []focus.Bill
	want := month.result.Platform.List.Add(month.result.Platform.QuantityRounding.Decimal)
	for i := range month.result.Invoices {
		bills = append(bills, month.bill(&month.result.Invoices[i], focus.KindInvoice))
		want = want.Add(month.result.Invoices[i].Effects.List)
	}
	got, summary := write(t, focus.Options{}, append(bills, month.platform())...)
	for i := range month.result.Invoices {
		invoice := &month.result.Invoices[i]
		number := bills[i].Number
		cells := got.sum(t, "BilledCost", row{"x_UsageHash": invoice.UsageHash, "x_BillKind": "invoice", "SubAccountId": subAccount(invoice.Tenant)})
		if !cells.Equal(invoice.Total.Decimal) || !summary.Billed[number].Equal(invoice.Total.Decimal) {
			t.Errorf("rows of %q sum to %s, the summary says %s, want the total %s", number, cells, summary.Billed[number], invoice.Total)
		}
	}
	if list := got.sum(t, "x_WholeGPUListCost", nil); !list.Equal(want) || !summary.WholeGPUListCost.Equal(want) {
		t.Errorf("whole-GPU list costs sum to %s, the summary says %s, want %s", list, summary.WholeGPUListCost, want)
	}
	if billed := got.sum(t, "BilledCost", row{"x_BillKind": "platform"}); !billed.IsZero() {
		t.Errorf("the platform is billed %s", billed)
	}
}

func TestHostileLedgerSumsExactly(t *testing.T) {
	for _, period := range []string{"2026-02", "2026-03", "2026-04"} {
		t.Run(period, func(t *testing.T) {
			month := rate(t, parse(t, hostileBook), period, hostileRows())
			assertSums(t, month)
		})
	}
}

// A row is what FOCUS wants of it, cell by cell: held time by slices under a
// discount, and a profile with a price of its own.
func TestRowsOfHeldTime(t *testing.T) {
	book := parse(t, `{currency: USD, skus: {Small: {profile: 1g.10gb}}, versions: [{effective: 2026-01-01T00:00:00Z,
  models: {H100: {gpu_hour: "2.00", profiles: {1g.10gb: "0.40"}}}, tenants: {ml: {discount: "0.25"}}}]}`)
	hold := rating.Row{Hour: march, Tenant: "ml", Project: "p", Model: "H100", Slices: 7, Bucket: "idle", SliceMS: 12_600_000}
	part := rating.Row{Hour: march.Add(time.Hour), Tenant: "ml", Model: "H100", Profile: "1g.10gb", ProfileSlices: 1, Slices: 7, Bucket: "active", SliceMS: 3_600_000}
	month := rate(t, book, "2026-03", []rating.Row{hold, part})
	got, _ := write(t, focus.Options{Config: focus.Config{Issuer: "Acme GPU"}}, month.bill(&month.result.Invoices[0], focus.KindInvoice))
	want := table{
		{
			"x_Effect": "list", "PricingQuantity": "0.5", "PricingUnit": "GPU-Hours", "ListUnitPrice": "2.0", "ContractedUnitPrice": "1.5",
			"ListCost": "1.0", "ContractedCost": "0.75", "EffectiveCost": "0.75", "BilledCost": "0.75", "ConsumedQuantity": "0.5", "ConsumedUnit": "GPU-Hours",
			"SkuId": "gpu/H100", "SkuMeter": "GPU Time", "SkuPriceDetails": `{"GpuCount":1,"InstanceType":"H100"}`, "Tags": `{"gputally/project":"p"}`,
			"x_WholeGPUListCost": "1.0", "x_SliceMilliseconds": "12600000.0", "x_CapacityBucket": "idle", "x_SKU": "", "ChargeCategory": "Usage",
			"ChargePeriodStart": "2026-03-01T00:00:00Z", "ChargePeriodEnd": "2026-03-02T00:00:00Z", "InvoiceId": "2026-03-ml-r0", "ChargeClass": "",
			"BillingAccountId": "billing-account/Acme GPU", "InvoiceIssuerName": "Acme GPU", "SubAccountName": "ml", "ChargeDescription": "GPU time of H100, idle, project p",
		},
		{
			"x_Effect": "profile", "PricingQuantity": "1.0", "PricingUnit": "Instance-Hours", "ListUnitPrice": "0.4", "ContractedUnitPrice": "0.3",
			"ListCost": "0.4", "ContractedCost": "0.3", "EffectiveCost": "0.3", "BilledCost": "0.3", "ConsumedQuantity": "0.142857143", "ConsumedUnit": "GPU-Hours",
			"SkuId": "gpu/H100/mig/1g.10gb", "SkuMeter": "MIG Instance Time", "SkuPriceDetails": `{"InstanceType":"H100","x_MigProfile":"1g.10gb"}`, "Tags": "",
			"x_WholeGPUListCost": "0.285714286", "x_SliceMilliseconds": "3600000.0", "x_CapacityBucket": "active", "x_SKU": "Small", "ChargeCategory": "Usage",
			"ChargePeriodStart": "2026-03-01T00:00:00Z", "ChargePeriodEnd": "2026-03-02T00:00:00Z", "InvoiceId": "2026-03-ml-r0", "ChargeClass": "",
			"BillingAccountId": "billing-account/Acme GPU", "InvoiceIssuerName": "Acme GPU", "SubAccountName": "ml", "ChargeDescription": "MIG instance time of H100 1g.10gb, active",
		},
	}
	for i := range got {
		for column := range got[i] {
			if _, asked := want[min(i, len(want)-1)][column]; !asked {
				delete(got[i], column)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// What each effect is called, over all of the hostile month.
func TestCategoriesOfEffects(t *testing.T) {
	month := rate(t, parse(t, hostileBook), "2026-03", hostileRows())
	var out bytes.Buffer
	if _, err := focus.Write(&out, focus.Options{}, month.bills(focus.KindDraft)); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, r := range read(t, out.Bytes()) {
		got[strings.Join([]string{r["x_BillKind"], r["x_Effect"], r["ChargeCategory"], r["PricingUnit"], r["CapacityReservationStatus"], r["InvoiceId"]}, " ")] = true
	}
	want := map[string]bool{}
	for _, line := range []string{
		"draft list Usage GPU-Hours", "draft profile Usage Instance-Hours", "draft tier Adjustment ", "draft fixed_discount Credit ",
		"draft idle_surcharge Adjustment ", "draft minimum Adjustment ", "draft energy Usage Kilowatt-Hours", "draft distribution Adjustment ",
		"draft rounding Adjustment ", "platform list Usage GPU-Hours", "platform quantity_rounding Adjustment ",
	} {
		want[line+"  "] = true
	}
	want["draft reservation Usage GPU-Hours Unused "] = true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds of rows (-want +got):\n%s", diff)
	}
}

// A note's rows are differences: they sum to it, each is a Correction of the
// month it was incurred in, billed in a later one.
func TestNotesAreCorrections(t *testing.T) {
	book := parse(t, hostileBook)
	month := rate(t, book, "2026-03", hostileRows())
	less := rate(t, book, "2026-03", hostileRows()[95:])
	got, summary := write(t, focus.Options{}, month.note("+a", less, "2026-05"), month.note("12345", less, "2026-05"))
	negative := 0
	for _, r := range got {
		if r["ChargeClass"] != "Correction" || r["BillingPeriodStart"] != "2026-05-01T00:00:00Z" || !strings.HasPrefix(r["ChargePeriodStart"], "2026-03-") {
			t.Errorf("row = %v, want a Correction of March billed in May", r)
		}
		if strings.HasPrefix(r["ListUnitPrice"]+r["ContractedUnitPrice"], "-") {
			t.Errorf("negative unit price in %v", r)
		}
		if strings.HasPrefix(r["PricingQuantity"], "-") {
			negative++
		}
	}
	if len(got) == 0 || negative == 0 || summary.Rows != len(got) {
		t.Errorf("%d rows, %d with a negative quantity, summary of %d", len(got), negative, summary.Rows)
	}
	same, summary := write(t, focus.Options{}, month.note("+a", month, "2026-05"))
	if len(same) != 0 || !summary.Billed["2026-03-+a-r1"].IsZero() {
		t.Errorf("a note of no change has %d rows", len(same))
	}
}

// A month in another zone begins within a UTC day: its rows are cut there, the
// billing period stays the book's.
func TestChargePeriodsOfOtherZones(t *testing.T) {
	month := rate(t, parse(t, hostileBook), "2026-03", hostileRows())
	for i := range month.result.Invoices {
		if month.result.Invoices[i].Tenant != "kolkata" {
			continue
		}
		got, _ := write(t, focus.Options{}, month.bill(&month.result.Invoices[i], focus.KindDraft))
		first, last := got[0], got[len(got)-1]
		if first["ChargePeriodStart"] != "2026-02-28T19:00:00Z" || first["BillingPeriodStart"] != "2026-03-01T00:00:00Z" {
			t.Errorf("first row begins at %s of %s", first["ChargePeriodStart"], first["BillingPeriodStart"])
		}
		if last["ChargePeriodEnd"] != "2026-03-31T19:00:00Z" {
			t.Errorf("last row ends at %s", last["ChargePeriodEnd"])
		}
		return
	}
	t.Fatal("no invoice of kolkata")
}

// A day in which prices change has rows before and rows after, and so has the
// month's energy.
func TestChargePeriodsEndWherePricesChange(t *testing.T) {
	month := rate(t, parse(t, hostileBook), "2026-03", hostileRows())
	got, _ := write(t, focus.Options{}, month.bill(&month.result.Invoices[1], focus.KindDraft))
	const change = "2026-03-11T07:00:00Z"
	count := map[string]int{}
	for _, r := range got {
		switch {
		case r["x_PriceBookVersion"] == "":
		case r["x_PriceBookVersion"] == change && r["ChargePeriodStart"] < change, r["x_PriceBookVersion"] != change && r["ChargePeriodEnd"] > change:
			t.Errorf("row of %s to %s has the prices of %s", r["ChargePeriodStart"], r["ChargePeriodEnd"], r["x_PriceBookVersion"])
		case r["ChargePeriodStart"] == change || r["ChargePeriodEnd"] == change:
			count[r["x_Effect"]+" "+r["ChargePeriodStart"]]++
		}
	}
	for _, want := range []string{"list 2026-03-11T00:00:00Z", "list " + change, "energy 2026-03-01T00:00:00Z", "energy " + change} {
		if count[want] == 0 {
			t.Errorf("no row of %s; there are %v", want, count)
		}
	}
}

func TestColumnsOfVersions(t *testing.T) {
	only := func(version string) map[string]bool {
		_, summary := write(t, focus.Options{Version: version})
		names := map[string]bool{}
		for _, c := range summary.Columns {
			if strings.HasSuffix(c.ColumnName, "ProviderName") || c.ColumnName == "PublisherName" {
				names[c.ColumnName] = true
			}
		}
		return names
	}
	if diff := cmp.Diff(map[string]bool{"ProviderName": true, "PublisherName": true}, only("1.2")); diff != "" {
		t.Errorf("columns of 1.2 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"ServiceProviderName": true, "HostProviderName": true}, only("1.4")); diff != "" {
		t.Errorf("columns of 1.4 (-want +got):\n%s", diff)
	}
}

// No text starts as a formula, and all come back whole.
func TestTextIsSafeAndWhole(t *testing.T) {
	month := rate(t, parse(t, hostileBook), "2026-03", hostileRows())
	var out bytes.Buffer
	if _, err := focus.Write(&out, focus.Options{}, month.bills(focus.KindInvoice)); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, r := range read(t, out.Bytes()) {
		for column, cell := range r {
			_, err := decimal.NewFromString(cell)
			if cell != "" && strings.ContainsRune("=+-@\t", rune(cell[0])) && err != nil {
				t.Errorf("%s %q can be taken for a formula", column, cell)
			}
		}
		ids[r["SubAccountId"]] = true
	}
	want := map[string]bool{"platform-unallocated": true}
	for _, tenant := range hostileTenants {
		want[subAccount(tenant)] = true
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("sub accounts (-want +got):\n%s", diff)
	}
}

// Every export breaks no rule of the specification that a file can show.
func TestExportsBreakNoRule(t *testing.T) {
	before := rate(t, parse(t, hostileBook), "2026-03", hostileRows())
	after := rate(t, parse(t, hostileBook), "2026-03", hostileRows()[95:])
	april := rate(t, parse(t, hostileBook), "2026-04", hostileRows())
	files := map[string]iter.Seq2[focus.Bill, error]{
		"drafts": before.bills(focus.KindDraft), "invoices": before.bills(focus.KindInvoice), "others": april.bills(focus.KindInvoice),
		"notes": of(before.note("+a", after, "2026-04"), before.note("12345", after, "2026-04"), before.note("kolkata", after, "2026-04")),
	}
	for name, bills := range files {
		for _, options := range []focus.Options{{Version: "1.2"}, {Version: "1.2", Validator: true}, {Version: "1.4"}} {
			var out bytes.Buffer
			summary, err := focus.Write(&out, options, bills)
			if err != nil {
				t.Fatal(err)
			}
			payable := map[string]decimal.Decimal{}
			for number, total := range summary.Billed {
				// The checker knows invoices by the text of their cells.
				if !options.Validator {
					payable[usage.TextCell(number)] = total
				}
			}
			got, err := focuscheck.Check(bytes.NewReader(out.Bytes()), focuscheck.Options{Version: options.Version, Payable: payable})
			if err != nil || len(got) > 0 || summary.Rows == 0 {
				t.Errorf("%s as %+v: %d rows, violations = %v, %v", name, options, summary.Rows, got, err)
			}
		}
	}
}

func TestBillsThatCannotBe(t *testing.T) {
	month := rate(t, parse(t, hostileBook), "2026-03", hostileRows())
	bill := func(change func(*focus.Bill)) focus.Bill {
		b := month.bill(&month.result.Invoices[1], focus.KindInvoice)
		change(&b)
		return b
	}
	charges := func(c rating.Charge) focus.Bill {
		return bill(func(b *focus.Bill) {
			b.Charges = func(yield func(rating.Charge)) error {
				c.Tenant = b.Tenant
				yield(c)
				return month.each.of(b.Tenant)(yield)
			}
		})
	}
	cent := decimal.New(1, -2)
	full := errors.New("disk full")
	plain := bill(func(*focus.Bill) {})
	for _, test := range []struct {
		name    string
		options focus.Options
		bills   []focus.Bill
		want    string
	}{
		{"a total off by a cent", focus.Options{}, []focus.Bill{bill(func(b *focus.Bill) { b.Total = b.Total.Add(cent) })}, "rows sum to"},
		{"a discount of its own", focus.Options{}, []focus.Bill{charges(rating.Charge{Version: 0, Effect: rating.EffectDiscount, Unit: "EUR", Amount: cent})}, "contracted prices take off"},
		{"list value not replaced", focus.Options{}, []focus.Bill{charges(rating.Charge{Version: 0, Effect: rating.EffectList, Model: "NVIDIA H100", Profile: "1g.10gb", Hour: march, Amount: cent})}, "is not replaced"},
		{"an unknown effect", focus.Options{}, []focus.Bill{charges(rating.Charge{Version: -1, Effect: "tip"})}, `effect "tip"`},
		{"a version beyond the book", focus.Options{}, []focus.Bill{charges(rating.Charge{Version: 2, Effect: rating.EffectList})}, "version 2 of 2"},
		{"time without a version", focus.Options{}, []focus.Bill{charges(rating.Charge{Version: -1, Effect: rating.EffectList})}, "version -1 of 2"},
		{"another tenant's charge", focus.Options{}, []focus.Bill{bill(func(b *focus.Bill) { b.Tenant = "x" })}, `is of tenant`},
		{"two months", focus.Options{}, []focus.Bill{plain, bill(func(b *focus.Bill) { b.BilledIn = "2026-04" })}, "billed in 2026-04, the file is of 2026-03"},
		{"one number twice", focus.Options{}, []focus.Bill{plain, plain}, "its number occurs twice"},
		{"no month", focus.Options{}, []focus.Bill{bill(func(b *focus.Bill) { b.Period = "March" })}, `"March"`},
		{"charges that fail", focus.Options{}, []focus.Bill{bill(func(b *focus.Bill) { b.Charges = func(func(rating.Charge)) error { return full } })}, "disk full"},
		{"an unknown version", focus.Options{Version: "1.3"}, nil, `version "1.3"`},
		{"no validator of 1.4", focus.Options{Version: "1.4", Validator: true}, nil, "validator knows 1.2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			_, err := focus.Write(&out, test.options, of(test.bills...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want it to contain %q", err, test.want)
			}
		})
	}
	if _, err := focus.Write(failing{full}, focus.Options{}, of(plain)); !errors.Is(err, full) {
		t.Errorf("error = %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A file and what describes it are there together, or the older ones stay.
func TestFileAndMetadata(t *testing.T) {
	month := rate(t, parse(t, hostileBook), "2026-03", hostileRows())
	dir, created := t.TempDir(), time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	path, summary, err := focus.File(dir, "2026-03", focus.Options{}, created, month.bills(focus.KindDraft))
	if err != nil || path != filepath.Join(dir, "export", "focus-1.2-2026-03.csv") || summary.Rows == 0 {
		t.Fatalf("path = %q, %d rows, %v", path, summary.Rows, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "export", "focus-1.2-2026-03.metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		SchemaId, FocusVersion, CreationDate string //nolint:revive // FOCUS's names
		ColumnDefinition                     []focus.ColumnDefinition
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.FocusVersion != "1.2" || got.CreationDate != "2026-04-01T12:00:00Z" || !strings.HasPrefix(got.SchemaId, "gputally-1.2-") {
		t.Errorf("metadata = %+v", got)
	}
	if diff := cmp.Diff(summary.Columns, got.ColumnDefinition); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := month.platform()
	broken.Total = decimal.New(1, 0)
	if _, _, err := focus.File(dir, "2026-03", focus.Options{}, created, of(broken)); err == nil {
		t.Error("a bill that doesn't sum was written")
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the older file was changed: %v", err)
	}
	if _, _, err := focus.File(dir, "2026-04", focus.Options{}, created, month.bills(focus.KindDraft)); err == nil {
		t.Error("bills of March are in April's file")
	}
	_, _, err = focus.File(dir, "2026-03", focus.Options{Config: focus.Config{Account: "n/a"}}, created, month.bills(focus.KindDraft))
	if err == nil || !strings.Contains(err.Error(), "NullHandling-A-002-M") {
		t.Errorf("error = %v, want the rule that the account breaks", err)
	}
	if _, _, err := focus.File(dir, "../x", focus.Options{}, created, of()); err == nil {
		t.Error("a period that is a path was taken")
	}
}
