package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/placetest"
	"github.com/gputally/gputally/internal/store"
)

// servePrometheus runs a real Prometheus (Debian's package) that has stored the
// samples of an OpenMetrics text, and returns its URL.
func servePrometheus(t *testing.T, text string) string {
	t.Helper()
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is needed in CI: %v", name, err)
			}
			t.Skipf("needs %s, of the package prometheus: %v", name, err)
		}
	}
	dir := t.TempDir()
	samples, blocks, config := filepath.Join(dir, "samples"), filepath.Join(dir, "tsdb"), filepath.Join(dir,
		"prometheus.yml")
	placetest.WriteFile(t, samples, text+"# EOF\n")
	placetest.WriteFile(t, config, "global: {}\n")
	if out, err := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", samples,
		blocks).CombinedOutput(); err != nil {
		t.Fatalf("promtool tsdb create-blocks-from: %v\n%s", err, out)
	}
	address := net.JoinHostPort(placetest.FreeAddress(t))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file="+config, "--storage.tsdb.path="+blocks,
		"--storage.tsdb.retention.time=100y", "--web.listen-address="+address, "--log.level=error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		var killed *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &killed) {
			t.Error(err)
		}
	})
	programtest.Eventually(t, "Prometheus is ready", func() bool {
		resp, err := http.Get("http://" + address + "/-/ready") //nolint:forbidigo // a test's own
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return "http://" + address
}

// scrapedByPrometheus is what a Prometheus keeps of a node that it scrapes a
// second before each slot's end. Renaming, as without honor_labels, it puts the
// exporter's own pod in place of the owner's labels.
func scrapedByPrometheus(n *scrapedNode, job string, slots int64, renaming bool) string {
	labels := fmt.Sprintf(`{job=%q,instance="%s:9400",`, job, job)
	var text strings.Builder
	for slot := range slots {
		at := firstHour.Add(time.Duration(slot+1)*scrapeSlot - time.Second).Unix()
		for line := range strings.Lines(n.expose(slot)) {
			if renaming {
				line = strings.NewReplacer(`,namespace=`, `,exported_namespace=`, `,pod=`, `,exported_pod=`, `,container=`,
					`,exported_container=`,
					`}`, `,namespace="monitoring",pod="gpu-metrics-7",container="metrics"}`).Replace(line)
			}
			text.WriteString(strings.Replace(strings.TrimSpace(line), "{", labels, 1) + fmt.Sprintf(" %d\n", at))
		}
	}
	return text.String()
}

// TestPrometheusHistoryIsTheLedgerOfScraping: two nodes scraped directly, and
// through a Prometheus that is imported later.
func TestPrometheusHistoryIsTheLedgerOfScraping(t *testing.T) {
	n1, n2 := h100Node(), a100Node()
	url := servePrometheus(t,
		scrapedByPrometheus(n1, "renamed", slotsPerHour, true)+scrapedByPrometheus(n2, "plain", slotsPerHour, false))
	r := newScrapeRig(t, n1, n2)
	r.pass(t, slotsPerHour)
	r.settle(t)
	by := []string{"hour", "node", "gpu", "leaf", "model", "profile", "tenant"}
	want := r.usage(t, 2, by...)

	data := programtest.NewDataDir(t)
	hour := []string{
		"import", "prometheus", "--url", url, "--data", data, "--cluster", "c", "--slot", "1m",
		"--from", "2024-03-04T10:00:00Z", "--to", "2024-03-04T11:00:00Z",
	}
	imported := func() (lines []string) {
		programtest.WithTables(t, data, func(db *store.DB) { lines = (&scrapeRig{db: db}).usage(t, 2, by...) })
		return lines
	}
	for _, said := range []string{
		"120 batches imported, 0 unchanged, of 2 nodes; 0 of 60 slots have no sample of any node\n",
		"0 batches imported, 120 unchanged, of 2 nodes; 0 of 60 slots have no sample of any node\n",
	} {
		got := programtest.Invoke(t, hour...)
		if got.Code != cli.ExitOK || got.Stdout != said {
			t.Fatalf("import: got %+v, want %q", got, said)
		}
		if diff := cmp.Diff(want, imported()); diff != "" {
			t.Errorf("imported (-scraped +imported):\n%s", diff)
		}
	}
	programtest.MustVerify(t, data)

	live := `{"cluster": "c", "node": "n9", "slot": "2024-03-04T10:30:00Z", "slot_ms": 60000, "collector": "col-9", "boot_ms": 1, "seq": 0, "attribution": "ok", "enumeration": "complete", "gpus": []}`
	programtest.MustImport(t, data, programtest.WriteLines(t, []string{live}))
	got := programtest.Invoke(t, hour...)
	if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr,
		`collector "col-9" has sent 1 batches of it, the first of 2024-03-04T10:30:00Z: history must end there`) {
		t.Errorf("into a live cluster: got %+v", got)
	}
	if got := programtest.Invoke(t,
		append(hour, "--slot", "30s")...); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr,
		`--slot 30s: cluster "c" has slots of 1m0s`) {
		t.Errorf("another slot length: got %+v", got)
	}
	hour[len(hour)-1] = "2024-03-04T10:30:00Z"
	if got := programtest.Invoke(t, hour...); got.Code != cli.ExitOK || !strings.HasPrefix(got.Stdout,
		"0 batches imported, 60 unchanged") {
		t.Errorf("before its first batch: got %+v", got)
	}
}

func TestPrometheusImportRefuses(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	placetest.WriteFile(t, token, "\n")
	for want, flags := range map[string][]string{
		`invalid argument "yesterday" for "--from"`:          {"--from", "yesterday"},
		"is not before to 2024-03-04T10:00:00Z":              {"--from", "2024-03-05"},
		"--to 2100-01-01T00:00:00Z is in the future":         {"--to", "2100-01-01"},
		"--slot 7s: want whole seconds that divide the hour": {"--slot", "7s"},
		`url "ftp://x": scheme "ftp" must be http or https`:  {"--url", "ftp://x"},
		`match "up": must be a selector`:                     {"--match", "up"},
		"token is empty": {
			"--bearer-token-file", token,
		},
		"--ca-file: " + token + " holds no PEM certificate": {"--ca-file", token},
		"--from 2024-03-04T09:00:05Z is not a multiple of the slot of 10s: 2024-03-04T09:00:00Z is": {
			"--from",
			"2024-03-04T09:00:05Z",
		},
	} {
		got := programtest.Invoke(t, append([]string{
			"import", "prometheus", "--data", programtest.NewDataDir(t), "--url", "http://127.0.0.1:1",
			"--from", "2024-03-04T09:00:00Z", "--to", "2024-03-04T10:00:00Z",
		}, flags...)...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("%v: got %+v, want %q", flags, got, want)
		}
	}
}

// TestPrometheusImportNamesTheSlotThatFits: minutes into slots of 10 s.
func TestPrometheusImportNamesTheSlotThatFits(t *testing.T) {
	url := servePrometheus(t, scrapedByPrometheus(a100Node(), "plain", 10, false))
	data := programtest.NewDataDir(t)
	of := func(flags ...string) []string {
		return append([]string{
			"import", "prometheus", "--data", data, "--url", url, "--from", "2024-03-04T10:00:00Z",
			"--to", "2024-03-04T11:00:00Z",
		}, flags...)
	}
	got := programtest.Invoke(t, of()...)
	if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr,
		"the exporters were scraped every 1m0s, which is more than the slot of 10s") ||
		!strings.Contains(got.Stderr, "give --slot 1m0s") {
		t.Errorf("slot of 10 s: got %+v", got)
	}
	got = programtest.Invoke(t, of("--match", `{job="other"}`)...)
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "no samples of DCGM fields with a GPU between") {
		t.Errorf("a selector that matches nothing: got %+v", got)
	}
	got = programtest.Invoke(t, of("--match", `{job=}`)...)
	if line := regexp.MustCompile(
		`query http://\S+ for .*job=.*window 2024-03-04T09:00:00Z to .*400 Bad Request: .*bad_data`); got.Code != cli.ExitFailed || !line.MatchString(got.Stderr) {
		t.Errorf("a selector that is none: got %+v", got)
	}
	got = programtest.Invoke(t, of("--slot", "1m")...)
	if want := "10 batches imported, 0 unchanged, of 1 node; 50 of 60 slots have no sample of any node\n"; got.Code != cli.ExitOK || got.Stdout != want {
		t.Errorf("slot of a minute: got %+v, want %q", got, want)
	}
}
