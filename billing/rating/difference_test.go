package rating

import (
	"bytes"
	"testing"
	"time"
)

// A month and the difference to another one are that other one, and a
// difference is an invoice of its own: its lines sum to its effects and total.
func TestR17NotesAndWhatTheyCorrectAreTheNewMonth(t *testing.T) {
	notes := 0
	for seed := range uint64(200) {
		result, copies, c := rateWithCopies(t, seed, Options{})
		for i := range result.Invoices {
			before := &result.Invoices[i]
			var text bytes.Buffer
			recopy, err := NewRecopy(c.book, c.period, before.Tenant, bytes.NewReader(copies[before.Tenant].Bytes()), &text)
			if err != nil {
				t.Fatal(err)
			}
			byHour(c.rows, func(hour time.Time, rows []Row) {
				if err := recopy.AddHour(hour, rows[:len(rows)/2]); err != nil {
					t.Fatal(err)
				}
			})
			if _, err := recopy.Finish(); err != nil {
				t.Fatal(err)
			}
			after, err := RateCopy(c.book, c.period, before.Tenant, &text, nil)
			if err != nil {
				t.Fatal(err)
			}
			note := Difference(after, before)
			if !before.Total.Add(note.Total.Decimal).Equal(after.Total.Decimal) ||
				!before.GPUHours.Add(note.GPUHours.Decimal).Equal(after.GPUHours.Decimal) {
				t.Fatalf("seed %d: %s and the note %s are not %s", seed, before.Total, note.Total, after.Total)
			}
			if err := CheckLines(&note); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := CheckEffects(&note, c.book.MinorUnit); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !note.Effects.Distribution.IsZero() {
				t.Fatalf("seed %d: a note moves distribution by %s", seed, note.Effects.Distribution)
			}
			if len(note.Lines) > 0 {
				notes++
			}
			if same := Difference(before, before); len(same.Lines) > 0 || !same.Total.IsZero() {
				t.Fatalf("seed %d: an invoice differs from itself by %+v", seed, same.Lines)
			}
			seen := map[Line]bool{} // a line tells one difference of what it names and costs
			for _, line := range note.Lines {
				price := line.UnitPrice.Decimal.String()
				line.Quantity, line.UnitPrice, line.Amount = Money{}, Money{}, Money{}
				line.Detail += price
				if seen[line] {
					t.Fatalf("seed %d: two lines of %+v", seed, line)
				}
				seen[line] = true
			}
		}
	}
	if notes == 0 {
		t.Error("no note ever had a line")
	}
}
