package slurm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/costtest"
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
	} {
		got, err := expandHostlist(list)
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
	} {
		if got, err := expandHostlist(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expand %q: got %d names, %v; want %s", list, len(got), err, want)
		}
	}
}

func FuzzExpandHostlist(f *testing.F) {
	for _, seed := range []string{"n[1-4,07]", "r[1-2]n[1-3],x", "n[", "]", "n[1-99999]", "é[1]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(list)), func() {
			names, err := expandHostlist(list)
			if err == nil && (len(names) == 0 || len(names) > maxNames) {
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
