package prices

import (
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
)

func TestFlatHasListRatesAlone(t *testing.T) {
	like, err := Parse("book.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	book, err := Flat("cloud", "USD", like, map[string]decimal.Decimal{"H100": decimal.RequireFromString("3.9")})
	if err != nil {
		t.Fatal(err)
	}
	version := book.Versions[book.At(time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC))]
	if got := version.Models["H100"].GPUHour.String(); got != "3.9" || len(version.Tenants) != 0 || version.Proportional {
		t.Errorf("rate %s, terms %v", got, version.Tenants)
	}
	// Months are the other book's, so that both rate the same hours.
	if book.Currency != "EUR" || book.Location("ml-train").String() != "Europe/Berlin" {
		t.Errorf("currency %s, zone %s", book.Currency, book.Location("ml-train"))
	}
	if yen, err := Flat("cloud", "JPY", nil, nil); err != nil || yen.MinorUnit != 0 || yen.Zone != time.UTC {
		t.Errorf("alone: %+v, %v", yen, err)
	}
	if _, err := Flat("cloud", "dollars", nil, nil); err == nil || !strings.Contains(err.Error(), `"dollars"`) {
		t.Errorf("error = %v, want the currency named", err)
	}
}
