package commandtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/demo"
	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store/storetest"
)

const (
	tutorialProgram = ".build/gputally "
	tutorialData    = "/tmp/first"
)

// TestTutorialShowsWhatCommandsPrint runs the tutorial's commands in order on one new
// directory and compares what they print. A shown line that is only … stands for any
// number of lines, and … at the end of a line for the rest of that line.
func TestTutorialShowsWhatCommandsPrint(t *testing.T) {
	storetest.Library(t)
	page := string(placetest.ReadFile(t, filepath.Join("..", "..", "..", "docs", "tutorial", "first-invoice.md")))
	data := filepath.Join(t.TempDir(), "first")
	ran := 0
	for _, b := range blocksOf(page) {
		if b.language != "console" {
			continue
		}
		for _, session := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			line, shown, _ := strings.Cut(session, "\n")
			if !strings.HasPrefix(line, tutorialProgram) {
				continue // clone and make
			}
			args := shellFields(strings.ReplaceAll(strings.TrimPrefix(line, tutorialProgram), tutorialData, data))
			if args[0] == "demo" {
				args = append(args, "--listen", "127.0.0.1:0")
			}
			got := programtest.Invoke(t, args...)
			if got.Code != cli.ExitOK {
				t.Fatalf("%s: got %+v", line, got)
			}
			printed := strings.Split(strings.Trim(strings.ReplaceAll(got.Stdout, data, tutorialData), "\n"), "\n")
			want := strings.Split(strings.Trim(shown, "\n"), "\n")
			if diff := cmp.Diff(want, elided(printed, want)); diff != "" {
				t.Errorf("%s (-shown +printed):\n%s", line, diff)
			}
			ran++
		}
	}
	if ran < 7 {
		t.Errorf("ran %d commands of the tutorial", ran)
	}
}

// elided replaces by … what the shown lines leave out of the printed ones.
func elided(printed, shown []string) []string {
	var out []string
	for i, line := range shown {
		if line == "…" {
			rest := len(printed) // where the next shown line is printed
			if i+1 < len(shown) {
				rest = slices.IndexFunc(printed, func(p string) bool { return shortened(p, shown[i+1]) == shown[i+1] })
			}
			if rest < 0 {
				break
			}
			out, printed = append(out, line), printed[rest:]
			continue
		}
		if len(printed) == 0 {
			break
		}
		out, printed = append(out, shortened(printed[0], line)), printed[1:]
	}
	return append(out, printed...)
}

// shortened is the printed line, cut where the shown line ends with ….
func shortened(printed, shown string) string {
	if begin, cut := strings.CutSuffix(shown, "…"); cut && strings.HasPrefix(printed, begin) {
		return shown
	}
	return printed
}

// TestDemoRefusesMonths that are not over, that can't go on live, or that differ from
// the month that the directory was begun with.
func TestDemoRefusesMonths(t *testing.T) {
	data := programtest.NewLedger(t)
	placetest.WriteFile(t, filepath.Join(data, demo.DemoName), `{"seed":1,"month":"2026-10-01T00:00:00Z"}`)
	for _, flags := range [][]string{
		{"--month", "2026-10"},
		{"--once", "--month", "2999-12"},
		{"--once", "--month", "2026-13"},
		{"--once", "--month", "2026-09", "--listen", "127.0.0.1:0"},
	} {
		got := programtest.Invoke(t, append([]string{"demo", "--data", data}, flags...)...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "month") {
			t.Errorf("demo %s: got %+v, want exit code 2", strings.Join(flags, " "), got)
		}
	}
}
