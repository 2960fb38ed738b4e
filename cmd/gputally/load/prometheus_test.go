package load

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/trust"
)

// Others may neither read the token, nor choose the authorities of the server that it is sent to.
func TestPrometheusFilesAreNobodyElses(t *testing.T) {
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		mode  os.FileMode
		flags HistoryFlags
	}{
		"token that others read":        {0o644, HistoryFlags{TokenFile: path}},
		"token that others write":       {0o602, HistoryFlags{TokenFile: path}},
		"authorities that others write": {0o646, HistoryFlags{CAFile: path}},
	} {
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		c.flags.URL = "https://prometheus"
		c.flags.From, c.flags.To = cli.Instant{At: from}, cli.Instant{At: from.Add(time.Hour)}
		var refused *trust.Error
		if _, _, err := c.flags.resolve(from.AddDate(0, 1, 0)); !errors.As(err, &refused) {
			t.Errorf("%s: %v, want a *trust.Error", name, err)
		}
	}
}
