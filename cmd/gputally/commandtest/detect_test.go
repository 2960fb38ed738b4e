package commandtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
)

// writeSeries writes 600 points, of which number 500 is an anomaly.
func writeSeries(t *testing.T, path string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("timestamp,value\n")
	at := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for i := range 600 {
		value := float64(i * 7919 % 101)
		if i == 500 {
			value = 900
		}
		fmt.Fprintf(&b, "%s,%v\n", at.Add(time.Duration(i)*5*time.Minute).Format(time.DateTime), value)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	placetest.WriteFile(t, path, b.String())
}

func TestDetectWritesOneSeriesToStdoutAndSeveralToAFolder(t *testing.T) {
	dir := t.TempDir()
	one, two, out := filepath.Join(dir, "in", "one.csv"), filepath.Join(dir, "in", "two.csv"), filepath.Join(dir, "out", "deep")
	writeSeries(t, one)
	writeSeries(t, two)
	printed := programtest.MustInvoke(t, "detect", "--input", one)
	lines := strings.Split(printed, "\n")
	if len(lines) != 602 || lines[0] != "timestamp,value,anomaly_score,label" {
		t.Fatalf("%d lines, the first is %q", len(lines), lines[0])
	}
	for i, line := range lines[1:601] {
		if alarm := strings.HasSuffix(line, ",1"); alarm != (i == 500) {
			t.Errorf("row %d: %s", i+2, line)
		}
	}
	names := programtest.MustInvoke(t, "detect", "--input", one, "--input", two, "--output", out)
	for _, name := range []string{"one.csv", "two.csv"} {
		path := filepath.Join(out, name)
		if got := string(placetest.ReadFile(t, path)); got != printed || !strings.Contains(names, path+"\n") {
			t.Errorf("%s: has %d bytes, want %d; printed %q", path, len(got), len(printed), names)
		}
	}
}

func TestDetectRefusesWhatItWouldOverwriteOrCannotRead(t *testing.T) {
	dir := t.TempDir()
	good, twin := filepath.Join(dir, "a", "x.csv"), filepath.Join(dir, "b", "x.csv")
	bad, out := filepath.Join(dir, "bad.csv"), filepath.Join(dir, "out")
	writeSeries(t, good)
	writeSeries(t, twin)
	placetest.WriteFile(t, bad, "timestamp,value\n2026-10-01 00:00:00,1\n2026-10-01 00:05:00,=1+1\n")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "a"), link); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "wrong.csv")
	placetest.WriteFile(t, wrong, "time,value\n")
	for name, test := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"no input":         {nil, cli.ExitUsage, []string{"--input"}},
		"two to stdout":    {[]string{"--input", good, "--input", bad}, cli.ExitUsage, []string{"--output"}},
		"the same name":    {[]string{"--input", good, "--input", twin, "--output", out}, cli.ExitUsage, []string{good, twin}},
		"into the input":   {[]string{"--input", good, "--output", filepath.Dir(good)}, cli.ExitUsage, []string{good}},
		"through a link":   {[]string{"--input", good, "--output", link}, cli.ExitUsage, []string{good}},
		"a bad row":        {[]string{"--input", bad, "--output", out}, cli.ExitFailed, []string{bad, "row 3", "value", "=1+1"}},
		"a wrong header":   {[]string{"--input", wrong, "--output", out}, cli.ExitUsage, []string{wrong, "row 1", "timestamp"}},
		"no such file":     {[]string{"--input", filepath.Join(dir, "none")}, cli.ExitEnvironment, []string{"none"}},
		"a folder as file": {[]string{"--input", dir}, cli.ExitFailed, []string{dir}},
	} {
		got := programtest.Invoke(t, append([]string{"detect"}, test.args...)...)
		if got.Code != test.code {
			t.Errorf("%s: %+v, want exit code %d", name, got, test.code)
		}
		for _, part := range test.says {
			if !strings.Contains(got.Stderr, part) {
				t.Errorf("%s: %q lacks %s", name, got.Stderr, part)
			}
		}
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
		t.Errorf("refused inputs leave %v, %v", entries, err)
	}
	if before := string(placetest.ReadFile(t, good)); strings.Contains(before, "anomaly_score") {
		t.Error("the input was replaced")
	}
}
