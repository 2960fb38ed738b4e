package jsonstream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func sum(d *Decoder) (total int, err error) {
	err = d.Members(func(name string) error {
		if name != "n" {
			return d.Skip()
		}
		return d.Elements(func() error {
			var n int
			err := d.Decode(&n)
			total += n
			return err
		})
	})
	return total, errors.Join(err, d.ReadErr())
}

func TestValuesOneByOne(t *testing.T) {
	for text, want := range map[string]int{
		`{"n":[1,2,3]}`: 6, `{"x":{"n":[9]},"n":[4],"y":[[]]}`: 4, `{"n":null}`: 0, `null`: 0, ` {} `: 0,
	} {
		d := New(iotest.OneByteReader(strings.NewReader(text)), Limits{Text: 100, Value: 50})
		got, err := sum(d)
		if err := errors.Join(err, d.End()); err != nil || got != want || d.BytesRead() != int64(len(text)) {
			t.Errorf("%s: got %d, %v, %d bytes; want %d", text, got, err, d.BytesRead(), want)
		}
	}
	for _, text := range []string{`[]`, `{"n":{}}`, `{"n":[1`, `{"n":["a"]}`, ``} {
		if got, err := sum(New(strings.NewReader(text), Limits{})); err == nil {
			t.Errorf("%s: got %d, want an error", text, got)
		}
	}
	if err := New(strings.NewReader(`{} {}`), Limits{}).End(); err == nil {
		t.Error("more than one text is taken for one")
	}
}

func TestLimits(t *testing.T) {
	endless := func(head, again string) io.Reader {
		return io.MultiReader(strings.NewReader(head), strings.NewReader(strings.Repeat(again, 1<<20)))
	}
	for name, c := range map[string]struct {
		text   io.Reader
		limits Limits
		most   int64
	}{
		"text":  {endless(`{"n":[0`, `,0`), Limits{Text: 1000, Value: 100}, 1001},
		"value": {endless(`{"x":"`, `a`), Limits{Value: 100_000}, 300_000},
	} {
		d := New(c.text, c.limits)
		if _, err := sum(d); !errors.Is(err, ErrTooLarge) || !errors.Is(d.ReadErr(), ErrTooLarge) || d.BytesRead() > c.most {
			t.Errorf("%s: got %v after %d bytes, want that it is too large", name, err, d.BytesRead())
		}
	}
}
