package statement

import (
	"fmt"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/billing/rating"
)

// linesShown bounds the lines of one effect; the API has them all.
const linesShown = 100

// effectWords are an effect's title and its meaning.
var effectWords = map[string]struct{ title, meaning string }{
	rating.EffectList: {"List value", "GPU-hours at the model's price of a whole GPU"},
	rating.EffectProfile: {
		"MIG profile prices",
		"difference for instances that have their own price instead of a share of a whole GPU's",
	},
	rating.EffectTier:          {"Tiers", "difference for GPU-hours above a monthly threshold, which have another price"},
	rating.EffectDiscount:      {"Discount", "agreed share of list value, profile prices and tiers"},
	rating.EffectFixedDiscount: {"Fixed discount", "agreed amount per month, at most the sum of the effects above"},
	rating.EffectReservation:   {"Reservation", "reserved GPUs that were available and not held"},
	rating.EffectIdleSurcharge: {"Idle surcharge", "surcharge on the list value of idle time"},
	rating.EffectMinimum:       {"Minimum", "difference to the agreed minimum"},
	rating.EffectEnergy:        {"Energy", "electricity, from the GPUs' energy counters"},
	rating.EffectDistribution:  {"Distribution", "this tenant's share of free and stranded time"},
	rating.EffectRounding:      {"Rounding", "of the total, once"},
}

var unitWords = map[string]string{
	rating.UnitGPUHour: "GPU-hours", rating.UnitProfileHour: "profile hours", rating.UnitKWh: "kWh",
}

// shown is a document with its effects and lines.
type shown struct {
	*invoice.Invoice
	bill      *bill
	TotalName string
}

// Shown is the invoice or draft.
func (b *bill) Shown() shown { return shown{b.Invoice, b, b.TotalName()} }

// Notes are the credit and debit notes.
func (b *bill) Notes() (notes []shown) {
	for i := range b.documents[1:] {
		note := shown{&b.documents[1+i], b, ""}
		note.TotalName = note.KindTitle() + " total"
		notes = append(notes, note)
	}
	return notes
}

// KindTitle is the title of a document's kind.
func (s shown) KindTitle() string {
	switch s.Kind {
	case invoice.KindCreditNote:
		return "Credit note"
	case invoice.KindDebitNote:
		return "Debit note"
	}
	return "Invoice"
}

// TotalText is the total without the currency.
func (s shown) TotalText() string { return number(s.Total.Decimal, s.bill.Total.Places()) }

// LinesName is the title of the lines' table.
func (s shown) LinesName() string { return "Lines of " + visible(s.Number) }

// HasLines returns whether any effect has lines.
func (s shown) HasLines() bool {
	return slices.ContainsFunc(s.Parts(), func(e effectView) bool { return len(e.Lines) > 0 })
}

// effectView is one of the eleven effects: its amount in the sum, and the lines that explain it.
type effectView struct {
	Title, Meaning, Amount string
	// Detail is the text of an effect with a single amount and without lines.
	Detail string
	Lines  []lineView
	// Rest describes the lines that are left out, and RestAmount their sum.
	Rest, RestAmount string
}

type lineView struct {
	What, Held, BucketName        string
	Quantity, Unit, Price, Amount string
}

// Parts are the effects that have an amount or lines.
func (s shown) Parts() (parts []effectView) {
	byEffect := map[string][]invoice.Line{}
	for _, l := range s.Lines {
		byEffect[l.Effect] = append(byEffect[l.Effect], l)
	}
	for _, effect := range s.Effects.Ordered() {
		lines := byEffect[effect.Name]
		if !effect.Amount.IsZero() || len(lines) > 0 {
			parts = append(parts, s.bill.effect(effect, lines))
		}
	}
	return parts
}

func (b *bill) effect(effect rating.Effect, lines []invoice.Line) effectView {
	words := effectWords[effect.Name]
	view := effectView{Title: words.title, Meaning: words.meaning, Amount: b.exact(effect.Amount)}
	if len(lines) == 1 && lines[0].Unit == "" {
		view.Detail = visible(lines[0].Detail)
		return view
	}
	if len(lines) > linesShown {
		rest := decimal.Zero
		for _, l := range lines[linesShown:] {
			rest = rest.Add(l.Amount.Decimal)
		}
		view.Rest, view.RestAmount = fmt.Sprintf("%d more lines are in the finance API",
			len(lines)-linesShown), b.exact(rest)
		lines = lines[:linesShown]
	}
	for _, l := range lines {
		view.Lines = append(view.Lines, b.line(l))
	}
	return view
}

func (b *bill) line(l invoice.Line) lineView {
	view := lineView{What: l.Model, Held: l.Profile, Amount: b.exact(l.Amount.Decimal)}
	if l.Bucket != "" && l.Profile == "" {
		view.Held = "whole GPU"
	}
	if l.SKU != "" {
		view.Held = l.SKU
		if l.Profile != "" {
			view.Held += " (" + l.Profile + ")"
		}
	}
	for _, bucket := range allBuckets {
		if bucket.Name == l.Bucket {
			view.BucketName = bucket.Title
		}
	}
	switch {
	case l.Project != "":
		view.What = "Project " + l.Project + ": " + l.Model
	case l.Model == "":
		view.What = "The whole month"
	}
	if l.Detail != "" {
		view.What += ", " + l.Detail
	}
	view.What, view.Held = visible(view.What), visible(view.Held)
	if l.Unit != "" {
		b.quantity(&view, l)
	}
	return view
}

// quantity sets quantity and price; of an amount a share is charged.
func (b *bill) quantity(view *lineView, l invoice.Line) {
	view.Quantity, view.Unit = number(l.Quantity.Decimal, exactPlaces), unitWords[l.Unit]
	if l.Unit == b.Currency {
		view.Unit = b.Currency
		share := l.UnitPrice.Mul(decimal.NewFromInt(100))
		view.Price = trimmed(share, 0) + "%"
		return
	}
	view.Price = trimmed(l.UnitPrice.Decimal, b.Total.Places())
}
