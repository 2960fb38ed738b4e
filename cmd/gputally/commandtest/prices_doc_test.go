package commandtest

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/commands"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/placetest"
)

// pricesDocs are the pages about price books: the book itself, and what is done with it.
var pricesDocs = []string{
	"../../../docs/reference/price-book.md", "../../../docs/how-to/publish-prices.md",
}

// block is a fenced block of a document.
type block struct{ language, text string }

func blocksOf(document string) []block {
	var blocks []block
	for i, part := range strings.Split("\n"+document, "\n```") {
		if i%2 == 1 {
			language, text, _ := strings.Cut(part, "\n")
			blocks = append(blocks, block{language, text + "\n"})
		}
	}
	return blocks
}

// TestPricesDocSaysWhatCommandsPrint runs every command of the pages, in order, on
// the files that they show.
func TestPricesDocSaysWhatCommandsPrint(t *testing.T) {
	var blocks []block
	for _, page := range pricesDocs {
		blocks = append(blocks, blocksOf(string(placetest.ReadFile(t, page)))...)
	}
	book := placetest.ReadFile(t, filepath.Join("testdata", "prices", "prices.yaml"))
	usage := placetest.ReadFile(t, filepath.Join("testdata", "prices", "usage.csv"))
	dir := t.TempDir()
	t.Chdir(dir)
	placetest.WriteFile(t, "prices.yaml", string(book))
	placetest.WriteFile(t, "usage.csv", string(usage))
	placetest.WriteFile(t, "next.yaml", withDerived(t, string(book)))
	commands := 0
	for _, b := range blocks {
		if b.language == "yaml" && b.text != string(book) {
			t.Errorf("the book shown is not testdata/prices/prices.yaml (-want +got):\n%s", cmp.Diff(string(book), b.text))
		}
		if b.language != "console" {
			continue
		}
		for _, session := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			line, want, _ := strings.Cut(session, "\n")
			if diff := cmp.Diff(strings.TrimRight(want, "\n"),
				runAt(t, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), line)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", line, diff)
			}
			commands++
		}
	}
	if commands < 4 {
		t.Errorf("ran %d commands", commands)
	}
}

// withDerived is the book with the H100's profiles as the document derives them.
func withDerived(t *testing.T, book string) string {
	t.Helper()
	printed := runAt(t, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"gputally prices derive --policy dominant prices.yaml --model 'NVIDIA H100 80GB HBM3'")
	line := func(text string) string {
		_, after, _ := strings.Cut(text, "profiles: ")
		profiles, _, _ := strings.Cut(after, "}")
		return "profiles: " + profiles + "}"
	}
	lastYAML := book[strings.Index(book, "versions:"):]
	return strings.Replace(book, line(lastYAML), line(printed), 1)
}

// runAt is what a command line prints at an instant.
func runAt(t *testing.T, now time.Time, line string) string {
	t.Helper()
	var stdout bytes.Buffer
	s := &cli.Session{Stdout: &stdout, Stderr: &stdout, Clock: clock.NewFake(now)}
	root := commands.Root(s)
	root.SetArgs(shellFields(line)[1:])
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return strings.TrimRight(stdout.String(), "\n")
}

// shellFields cuts a command line at spaces outside of single quotes.
func shellFields(line string) []string {
	quoted := false
	fields := strings.FieldsFunc(line, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for i := range fields {
		fields[i] = strings.ReplaceAll(fields[i], "'", "")
	}
	return fields
}
