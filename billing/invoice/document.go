package invoice

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
)

// Statuses of a document: a draft is recomputed each time it is asked for, a
// finalised one never changes.
const (
	StatusDraft     = "draft"
	StatusFinalised = "finalised"
)

// Kinds of documents. A note corrects an invoice, by what it comes to now
// beyond what it and its earlier notes came to: a credit note by nothing or
// less, a debit note by more (R20).
const (
	KindInvoice    = decisions.InvoiceKind
	KindCreditNote = decisions.CreditNoteKind
	KindDebitNote  = decisions.DebitNoteKind
)

// hourPlaces is the precision of hours on documents (R8).
const hourPlaces = 9

// Invoice is the document of one tenant and month. Amounts are exact decimals
// without trailing zeros; the total has the currency's places, hours have 9.
// It says nothing of when it was made: the same usage gives the same bytes.
type Invoice struct {
	Tenant   string         `json:"tenant"`
	Period   string         `json:"period"`
	Currency string         `json:"currency"`
	GPUHours string         `json:"gpu_hours"`
	Effects  rating.Effects `json:"effects"`
	Total    string         `json:"total"`
	Number   string         `json:"number"`
	Revision int            `json:"revision"`
	Status   string         `json:"status"`
	Kind     string         `json:"kind"`
	// Corrects is the number of the revision before a note, Reason why there is
	// one; both are empty on invoices.
	Corrects string `json:"corrects,omitempty"`
	Reason   string `json:"reason,omitempty"`
	TimeZone string `json:"time_zone"`
	// From (inclusive) and To (exclusive) are the month's UTC hours, RFC 3339.
	From string `json:"from"`
	To   string `json:"to"`
	// Buckets are the tenant's GPU-hours; together they are GPUHours.
	Buckets   HeldHours `json:"buckets"`
	UsageHash string    `json:"usage_sha256"`
	PriceHash string    `json:"price_book_sha256"`
	Lines     []Line    `json:"lines"`
	// Content is the SHA-256, in hex, of the document's bytes; a draft's is that
	// of the document it would be if it were finalised now.
	Content string `json:"-"`
	// Quarantined says which hours of the tenant are left out of a draft, for
	// they can't be billed, and what to do; such a draft can't be finalised.
	Quarantined string `json:"quarantined,omitempty"`
	// Withheld is ReasonQuarantined or ReasonNoRate where Quarantined says something.
	Withheld Reason `json:"-"`
}

// HeldHours are a tenant's GPU-hours by bucket.
type HeldHours struct {
	Active   string `json:"active"`
	Idle     string `json:"idle"`
	Unproven string `json:"unproven"`
}

// Line explains a part of an effect. With a unit, the amount is exactly
// quantity × unit price; the unit is gpu_hour, profile_hour, kwh, or the
// currency, where a share of an amount is charged.
type Line struct {
	Effect    string `json:"effect"`
	Project   string `json:"project,omitempty"`
	Model     string `json:"model,omitempty"`
	Profile   string `json:"profile,omitempty"`
	SKU       string `json:"sku,omitempty"`
	Bucket    string `json:"bucket,omitempty"`
	Quantity  string `json:"quantity,omitempty"`
	Unit      string `json:"unit,omitempty"`
	UnitPrice string `json:"unit_price,omitempty"`
	Amount    string `json:"amount"`
	Detail    string `json:"detail,omitempty"`
}

// Platform is the platform's own account, by the book's zone. List values obey
// C7b: tenants + platform + quantity rounding = capacity.
type Platform struct {
	GPUHours             string `json:"gpu_hours"`
	List                 string `json:"list"`
	QuantityRounding     string `json:"quantity_rounding"`
	Distribution         string `json:"distribution"`
	EnergyMJ             string `json:"energy_mj"`
	UnattributedEnergyMJ string `json:"unattributed_energy_mj"`
	TenantsList          string `json:"tenants_list"`
	CapacityList         string `json:"capacity_list"`
	Lines                []Line `json:"lines"`
	// Quarantined says which hours are left out of this account.
	Quarantined string `json:"quarantined,omitempty"`
	// Withheld is as an invoice's.
	Withheld Reason `json:"-"`
}

// Number is an invoice's, from period, tenant and revision: "2026-10-ml-train-r0".
func Number(period, tenant string, revision int) string {
	return period + "-" + tenant + "-r" + strconv.Itoa(revision)
}

// Canonical is the document as JSON: keys in their fixed order, no HTML
// escapes, one space of indentation, a newline at the end (C8).
func Canonical(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return out.Bytes(), nil
}

func newInvoice(book *prices.Book, period rating.Period, rated *rating.Invoice) Invoice {
	zone := book.Location(rated.Tenant)
	from, to := bounds(period, zone)
	held := map[string]decimal.Decimal{}
	for _, line := range rated.Lines {
		if line.Effect == rating.EffectList {
			held[line.Bucket] = held[line.Bucket].Add(line.Quantity)
		}
	}
	hours := func(bucket string) string { return held[bucket].StringFixed(hourPlaces) }
	return Invoice{
		Tenant: rated.Tenant, Period: rated.Period, Currency: rated.Currency,
		GPUHours: rated.GPUHours.StringFixed(hourPlaces), Effects: rated.Effects, Total: rated.Total.StringFixed(book.MinorUnit),
		Number: Number(rated.Period, rated.Tenant, 0), Status: StatusDraft, Kind: KindInvoice, TimeZone: zone.String(),
		From: from.Format(time.RFC3339), To: to.Format(time.RFC3339),
		Buckets:   HeldHours{Active: hours("active"), Idle: hours("idle"), Unproven: hours("unproven")},
		UsageHash: rated.UsageHash, PriceHash: book.Hash, Lines: newLines(rated.Lines, book.Currency, book.SKUName),
	}
}

// newLines formats lines; sku names what an owner held.
func newLines(rated []rating.Line, currency string, sku func(profile string) string) []Line {
	lines := make([]Line, 0, len(rated))
	for _, from := range rated {
		line := Line{
			Effect: from.Effect, Project: from.Project, Model: from.Model, Profile: from.Profile, Bucket: from.Bucket,
			Unit: from.Unit, Amount: from.Amount.String(), Detail: from.Detail,
		}
		if from.Model != "" && from.Bucket != "" {
			line.SKU = sku(from.Profile)
		}
		switch from.Unit {
		case "":
		case currency:
			line.Quantity, line.UnitPrice = from.Quantity.String(), from.UnitPrice.String()
		default:
			line.Quantity, line.UnitPrice = from.Quantity.StringFixed(hourPlaces), from.UnitPrice.String()
		}
		lines = append(lines, line)
	}
	return lines
}

func newPlatform(book *prices.Book, rated *rating.Platform, value *rating.ListValue, unattributedMJ decimal.Decimal) Platform {
	return Platform{
		GPUHours: rated.GPUHours.StringFixed(hourPlaces), List: rated.List.String(),
		QuantityRounding: rated.QuantityRounding.String(), Distribution: rated.Distribution.String(),
		EnergyMJ: rated.EnergyMJ.String(), UnattributedEnergyMJ: unattributedMJ.String(),
		TenantsList: value.Tenants.String(), CapacityList: value.Capacity().String(),
		Lines: newLines(rated.Lines, book.Currency, func(string) string { return "" }),
	}
}
