package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/clock"
)

const pricesDoc = "../../docs/prices.md"

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

// TestPricesDocSaysWhatCommandsPrint runs every command of docs/prices.md, in
// order, on the files it shows.
func TestPricesDocSaysWhatCommandsPrint(t *testing.T) {
	blocks := blocksOf(string(readFile(t, pricesDoc)))
	book := readFile(t, filepath.Join("testdata", "prices", "prices.yaml"))
	usage := readFile(t, filepath.Join("testdata", "prices", "usage.csv"))
	dir := t.TempDir()
	t.Chdir(dir)
	writeFile(t, "prices.yaml", string(book))
	writeFile(t, "usage.csv", string(usage))
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
			if diff := cmp.Diff(strings.TrimRight(want, "\n"), runAt(t, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), line)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", line, diff)
			}
			commands++
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "next.yaml")); err != nil || commands < 5 {
		t.Errorf("ran %d commands, %v", commands, err)
	}
}

// runAt is what a command line prints at an instant.
func runAt(t *testing.T, now time.Time, line string) string {
	t.Helper()
	var stdout bytes.Buffer
	s := &session{stdout: &stdout, stderr: &stdout, clock: clock.NewFake(now)}
	root := s.rootCommand()
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
