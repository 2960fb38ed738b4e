package imports

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestParseMoments(t *testing.T) {
	for _, c := range []struct {
		text, zone string
		want       []string // RFC 3339
	}{
		{"2026-03-01T01:02:03Z", "UTC", []string{"2026-03-01T01:02:03Z"}},
		{"2026-03-01T01:02:03.0459+02:00", "UTC", []string{"2026-02-28T23:02:03.045Z"}},
		{"2026-03-01 01:02:03+0000", "UTC", []string{"2026-03-01T01:02:03Z"}},
		{"2026-03-01 01:02:03.5+00:00", "UTC", []string{"2026-03-01T01:02:03.5Z"}},
		{"2026-03-01T01:02:03+0530", "UTC", []string{"2026-02-28T19:32:03Z"}},
		{"2020-04-01 08:00:00", "Asia/Shanghai", []string{"2020-04-01T00:00:00Z"}},
		{"2020-04-01", "Asia/Shanghai", []string{"2020-03-31T16:00:00Z"}},
		{"1583020923", "Asia/Shanghai", []string{"2020-03-01T00:02:03Z"}},
		{"1583020923.5", "UTC", []string{"2020-03-01T00:02:03.5Z"}},
		{"1583020923.9999999", "UTC", []string{"2020-03-01T00:02:03.999Z"}},
		{"2026-10-25T02:30:00", "Europe/Berlin", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}},
		{"2026-10-25T03:00:00", "Europe/Berlin", []string{"2026-10-25T02:00:00Z"}},
		{"2026-04-05T01:45:00", "Australia/Lord_Howe", []string{"2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"}},
		{"Unknown", "UTC", []string{}},
		{"None", "UTC", []string{}},
		{"", "UTC", []string{}},
	} {
		all, err := parseMoments(c.text, zone(t, c.zone))
		got := []string{}
		for _, ms := range all {
			got = append(got, rfc3339(ms))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%q in %s: %v (-want +got):\n%s", c.text, c.zone, err, diff)
		}
	}
}

func TestParseMomentsRefuses(t *testing.T) {
	if _, err := parseMoments("2026-03-29T02:30:00", zone(t, "Europe/Berlin")); !errors.Is(err, errNonexistent) {
		t.Errorf("a skipped time: got %v, want %v", err, errNonexistent)
	}
	for _, text := range []string{
		"yesterday", "1583020923000", "-5", "1969-12-31T00:00:00Z", "0", "1970-01-01",
		"1999-12-31T23:59:59.999Z", "946684799", "2107-01-01", "1e9", "12:00",
	} {
		if all, err := parseMoments(text, time.UTC); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: got %v, %v; want an error that names it", text, all, err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "90": 90_000, "1.5": 1500, "01:00:00": 3_600_000, "2-03:04:05": 183_845_000, "00:00:00.250": 250,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1:2", "-1", "a-00:00:00", "00:00:xx", "1e3", "00:-1:00"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestParseMilliGPUs(t *testing.T) {
	for text, want := range map[string]uint32{
		"0": 0, "2": 2000, "2.0": 2000, "0.5": 500, "0.125": 125, "1.2500000": 1250, "1000000": 1_000_000_000,
	} {
		if got, err := parseMilliGPUs(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "0.1234", "1e3", "two", "1000001", "1000000.001", ".5", "1.5.5"} {
		if got, err := parseMilliGPUs(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}
