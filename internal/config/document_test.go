package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/costtest"
)

// hostileYAML are files that a parser without bounds takes long or much for, by
// what their error names; empty: what it says doesn't matter.
func hostileYAML() map[string]string {
	const full = MaxBytes - 64
	repeat := func(s string) string { return strings.Repeat(s, full/len(s)) }
	var laughs strings.Builder
	laughs.WriteString("a: &a [x]\n")
	for c := 'b'; c < 'z'; c++ {
		fmt.Fprintf(&laughs, "%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 9))
	}
	return map[string]string{
		"f:1: anchors and aliases": "a: &a 1\n", "f:2: anchors and aliases": "a: 1\nb: &b [*b]\n",
		"f:1: anchors": laughs.String(), "f:2: merge keys": "a: 1\n<<: {b: 1}\n",
		"f:1: a key of 2000 bytes":     "? " + strings.Repeat("k", 2000) + "\n: 1",
		"is longer than 1048576 bytes": strings.Repeat("#", MaxBytes+1),
		"want at most 200000":          "[" + repeat("a,") + "]",
		"nested more than":             strings.Repeat("[", 40) + strings.Repeat("]", 40),
		"more than 100000 values":      "{" + strings.Repeat("a,", 60_000) + "}",
		"flow":                         strings.Repeat("[", 190_000), "block": strings.Repeat("- ", 190_000),
		"keys": strings.Repeat("? ", 190_000),
		"maps": strings.Repeat("{a: ", 90_000), "comments": repeat("#\n"), "commented": repeat("- #\n  a\n"),
		"lines":  "a: |\n" + repeat(" \n"),
		"folded": "a: >\n" + repeat(" b\n\n"), "quoted": `a: "` + repeat("\n") + `"`,
		"escapes": `a: "` + repeat(`\U0001F600`) + `"`,
		"tags":    repeat("!a "), "tabs": repeat("\t"), "plain": "a: " + repeat("b "), "indents": indents(),
		"documents":  repeat("---\n"),
		"directives": repeat("%YAML 1.1\n"), "anchors": repeat("&a "), "zeros": repeat("\x00"),
		"wide": "\xff\xfe" + repeat("a\x00"),
	}
}

// indents is a file of ever deeper lines, and as many that end them.
func indents() string {
	var b strings.Builder
	for depth := 0; b.Len() < MaxBytes/2; depth++ {
		b.WriteString(strings.Repeat(" ", depth%1000) + "a:\n")
	}
	return b.String()
}

// TestH7YAMLIsBounded: whatever the file, reading it is cheap, and what would
// expand is refused by its line.
func TestH7YAMLIsBounded(t *testing.T) {
	for want, text := range hostileYAML() {
		t.Run(want, func(t *testing.T) {
			var err error
			costtest.Within(t, costtest.Time, 256<<20, func() { _, err = Document("f", []byte(text)) })
			if strings.Contains(want, " ") && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("error %.200v, want %s", err, want)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestH7AFullFileIsTaken: bounds are beyond what a site writes.
func TestH7AFullFileIsTaken(t *testing.T) {
	text := "groups:\n" + strings.Repeat("- {gpu: GPU-8a5c1e2d-1111-2222-3333-444455556666, n: 1}\n", 15_000)
	got := struct {
		Groups []map[string]string
	}{}
	costtest.Within(t, 5*time.Second, 256<<20, func() {
		if err := Decode("f", []byte(strings.ReplaceAll(text, "n: 1", "n: x")), &got); err != nil ||
			len(got.Groups) != 15_000 {
			t.Errorf("%d groups: %v", len(got.Groups), err)
		}
	})
}

func TestReadFileStopsAtItsBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(1 << 34); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	costtest.Within(t, costtest.Time, 16<<20, func() { _, err = ReadFile(path) })
	if err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("error %v, want the file's length refused", err)
	}
}
