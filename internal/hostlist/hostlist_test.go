package hostlist_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/hostlist"
	"github.com/gputally/gputally/internal/wire"
)

func TestExpandHostlist(t *testing.T) {
	for list, want := range map[string][]string{
		"n1":                    {"n1"},
		"n[1-3,7]":              {"n1", "n2", "n3", "n7"},
		"n[08-10]":              {"n08", "n09", "n10"},
		"a,b[2,1],c":            {"a", "b2", "b1", "c"},
		"r[1-2]n[1-2]":          {"r1n1", "r1n2", "r2n1", "r2n2"},
		"gpu[1-2]-ib":           {"gpu1-ib", "gpu2-ib"},
		"/dev/nvidia[0-1]":      {"/dev/nvidia0", "/dev/nvidia1"},
		"/dev/nvidia[5,4]":      {"/dev/nvidia5", "/dev/nvidia4"},
		"/dev/nvidia0,/dev/x/y": {"/dev/nvidia0", "/dev/x/y"},
		"r[1-2]c[0-1]-ib":       {"r1c0-ib", "r1c1-ib", "r2c0-ib", "r2c1-ib"},
		"a[1,2],b[001-002]x":    {"a1", "a2", "b001x", "b002x"},
	} {
		got, err := hostlist.Expand(list)
		if err != nil {
			t.Errorf("expand %q: %v", list, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("expand %q (-want +got):\n%s", list, diff)
		}
	}
}

func TestExpandHostlistRefuses(t *testing.T) {
	for list, want := range map[string]string{
		"":                        "an empty name",
		"a,,b":                    "an empty name",
		"n[1-":                    "no closing bracket ']'",
		"n1]":                     "a bracket ']' too many",
		"n[[1]]":                  "a bracket '[' too many",
		"n[]":                     `range ""`,
		"n[3-1]":                  `range "3-1"`,
		"n[a-b]":                  `range "a-b"`,
		"n[1--2]":                 `range "1--2"`,
		"n[-1]":                   `range "-1"`,
		"n[0-99999999]":           `range "0-99999999"`,
		"n[0-999]n[0-999]":        "more than 65536 names",
		"n[0-65535],m":            "more than 65536 names",
		"n[0-65535,1]":            "more than 65536 numbers",
		"n[0-65535,0-65535,1]n[]": "more than 65536 numbers",
		"n[00000000001-2]":        "at most 10 digits",
		strings.Repeat("a[1]", 9): "more than 8 ranges",
	} {
		if got, err := hostlist.Expand(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expand %q: got %d names, %v; want %s", list, len(got), err, want)
		}
	}
}

// TestL6HostlistBytesAreBounded: a few bytes that stand for many names, or for
// long ones, are refused before the names are made.
func TestL6HostlistBytesAreBounded(t *testing.T) {
	wide := strings.Repeat("n", wire.MaxNameBytes-5)
	for list, want := range map[string]string{
		strings.Repeat("n", 16<<10) + "[0-65535]":                    "a name of 16385 bytes",
		"[0-65535]" + strings.Repeat("n", 100<<10):                   "a name of 102401 bytes",
		"n[" + strings.Repeat("0", 100<<10) + "-9999]":               "range",
		"n[0-65535]" + strings.Repeat("a[1]", 1<<15):                 "more than 8 ranges",
		wide + "[10000-65535]":                                       "names of more than 4194304 bytes in all",
		strings.Repeat(wide+"[10000-19999],", 6) + "n1":              "names of more than 4194304 bytes in all",
		strings.Repeat("a,", 1<<20):                                  "more than 65536 names",
		strings.Repeat("[0-65535],", 1<<10) + "[0-65535]":            "more than 65536 names",
		"n[" + strings.Repeat("0-65535,", 1<<10) + "1]":              "more than 65536 numbers",
		strings.Repeat("n", wire.MaxNameBytes+1):                     "a name of 201 bytes",
		strings.Repeat(strings.Repeat("n", 100)+"[0-65535],", 2<<10): "bytes in all",
	} {
		costtest.Within(t, costtest.Time, 32<<20, func() {
			if names, err := hostlist.Expand(list); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
				t.Errorf("%.40q of %d bytes: %d names, error %.300v, want %s", list, len(list), len(names), err, want)
			}
		})
	}
	if names, err := hostlist.Expand(wide + "[10000-29999]"); err != nil || len(names) != 20_000 {
		t.Errorf("%d long names, %v, want 20000", len(names), err)
	}
}

func FuzzExpandHostlist(f *testing.F) {
	for _, seed := range []string{"n[1-4,07]", "r[1-2]n[1-3],x", "n[", "]", "n[1-99999]", "é[1]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(list)), func() {
			names, err := hostlist.Expand(list)
			if err == nil && (len(names) == 0 || len(names) > hostlist.MaxNames) {
				t.Errorf("expand %q: %d names", list, len(names))
			}
			for _, name := range names {
				if err == nil && strings.ContainsAny(name, "[]") {
					t.Errorf("expand %q: name %q", list, name)
				}
			}
		})
	})
}
