package exporter

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/collector/source"

	"github.com/gputally/gputally/internal/wire"
)

func TestEmptyMIGBoardIsInferred(t *testing.T) {
	board := func(extra ...string) string {
		return text(
			row("DCGM_FI_DEV_POWER_USAGE", a100+`,container="",namespace="",pod=""`, 75.96),
			row("DCGM_FI_DEV_GPU_TEMP", a100, 32),
			row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", a100, 0.000033),
		) + text(extra...)
	}
	const t4 = `gpu="5",UUID="GPU-t",modelName="Tesla T4",Hostname="n1"`
	infer := func(c *Config) { c.InferMIG = true }
	for _, c := range []struct {
		name   string
		config func(*Config)
		rows   string
		mig    bool
	}{
		{"nothing but board rows", infer, board(), true},
		{"inference off", func(c *Config) { c.InferMIG = false }, board(), false},
		{"GPU_UTIL is there", infer, board(row("DCGM_FI_DEV_GPU_UTIL", a100, 0)), false},
		{"FB_FREE is there", infer, board(row("DCGM_FI_DEV_FB_FREE", a100, 40000)), false},
		{"held", infer, board(row("DCGM_FI_DEV_SM_CLOCK", a100+owned, 1410)), false},
		{"at work", infer, board(row("DCGM_FI_PROF_SM_ACTIVE", a100, 0.5)), false},
		{"mode says off", infer, board(row("DCGM_FI_DEV_MIG_MODE", a100, 0)), false},
		{"mode says on, in spite of GPU_UTIL", infer, board(row("DCGM_FI_DEV_MIG_MODE", a100, 1), row("DCGM_FI_DEV_GPU_UTIL", a100, 0)), true},
		{"label says on", infer, board(row("DCGM_FI_DEV_SM_CLOCK", a100+`,DCGM_FI_DEV_MIG_MODE="1"`, 1410)), true},
		{"label says off", infer, board(row("DCGM_FI_DEV_SM_CLOCK", a100+`,DCGM_FI_DEV_MIG_MODE="0"`, 1410)), false},
		{"a held neighbour lacks them too", infer, board(row("DCGM_FI_DEV_GPU_TEMP", t4+owned, 40)), false},
		{"a free neighbour lacks them too", infer, board(row("DCGM_FI_DEV_GPU_TEMP", t4, 40)), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, c.config).gpus(c.rows)[0]
			leaves := 1
			if c.mig {
				leaves = 0
			}
			if g.Mig != c.mig || len(g.Leaves) != leaves || g.Slices != 7 {
				t.Errorf("mig %v with %d leaves of %d slices, want mig %v with %d leaves of 7", g.Mig, len(g.Leaves), g.Slices, c.mig, leaves)
			}
		})
	}
}

func TestFieldsThatAreNotExportedStayKnown(t *testing.T) {
	r := newRig(t, nil)
	busy := row("DCGM_FI_DEV_POWER_USAGE", a100+owned, 300)
	if g := r.gpu(busy); g.Mig {
		t.Fatal("a held board was taken for an empty MIG board")
	}
	if g := r.gpu(row("DCGM_FI_DEV_POWER_USAGE", a100, 76)); g.Mig {
		t.Error("the same board, free, was taken for MIG: its exporter never had the fields")
	}
}

func TestSlicesComeFromDeviceConfigOrTable(t *testing.T) {
	const unknown = `gpu="0",UUID="GPU-u",modelName="NVIDIA X900",Hostname="n1"`
	const nameless = `gpu="0",UUID="GPU-u",Hostname="n1"`
	configured := func(c *Config) {
		c.Models = source.Models{{Name: "NVIDIA X900", Slices: 8, IdleWatts: 120, Profiles: map[string]int{"1g.24gb": 2}}}
	}
	gr := func(labels string) string { return row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", labels, 0.1) }
	for _, c := range []struct {
		name        string
		config      func(*Config)
		rows        string
		board, leaf uint32
		problem     string
	}{
		{"unknown whole GPU", nil, gr(unknown), 1, 1, ""},
		{"configured", configured, gr(unknown + gi(1, "1g.24gb+me")), 8, 2, ""},
		{"device", nil, gr(a100+gi(1, "1g.5gb")) + row("DCGM_FI_DEV_MIG_MAX_SLICES", a100, 6), 6, 1, ""},
		{"profile that all models agree on", nil, gr(nameless + gi(1, "2g.10gb")), 7, 2, ""},
		{"profile of several boards", nil, gr(nameless + gi(1, "1g.24gb")), 0, 0, `profile "1g.24gb" of GPU instance 1`},
		{"unknown model", nil, gr(unknown + gi(1, "1g.5gb")), 0, 0, `the slices of model "NVIDIA X900" are unknown`},
		{"unknown profile", nil, gr(a100 + gi(1, "5g.5gb")), 0, 0, `profile "5g.5gb" of GPU instance 1 is unknown for model "NVIDIA A100-SXM4-40GB"`},
		{"two profiles at one id", nil, gr(a100+gi(1, "1g.5gb")) + gr(a100+gi(1, "2g.10gb")), 0, 0, `GPU_I_ID 1 has the profiles "1g.5gb" and "2g.10gb"`},
		{"id that is no number", nil, gr(a100 + `,GPU_I_ID="x",GPU_I_PROFILE="1g.5gb"`), 0, 0, `GPU_I_ID "x" is not a number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			healthy := row("DCGM_FI_DEV_GPU_UTIL", `gpu="9",UUID="GPU-z",modelName="Tesla T4",Hostname="n1"`, 3)
			batches, err := newRig(t, c.config).read(c.rows + healthy)
			if c.problem == "" {
				if err != nil {
					t.Fatal(err)
				}
				g := batches[0].Gpus[0]
				if g.Slices != c.board || g.Leaves[0].Slices != c.leaf {
					t.Errorf("slices of board and leaf %d, %d; want %d, %d", g.Slices, g.Leaves[0].Slices, c.board, c.leaf)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.problem) || !strings.Contains(err.Error(), `node "n1": gpu "GPU-`) {
				t.Errorf("error %v, want one with the GPU and %q", err, c.problem)
			}
			if b := batches[0]; len(b.Gpus) != 1 || b.Gpus[0].Uuid != "GPU-z" || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
				t.Errorf("got %v, want the healthy GPU alone in a partial enumeration", b)
			}
		})
	}
}

func TestOwners(t *testing.T) {
	row0 := func(labels string) string { return row("DCGM_FI_DEV_GPU_UTIL", h100+labels, 3) }
	other := row("DCGM_FI_DEV_GPU_UTIL", `gpu="1",UUID="GPU-z",modelName="Tesla T4",Hostname="n1",namespace="gpu-operator",pod="exp-1",exported_namespace="b",exported_pod="q"`, 3)
	for _, c := range []struct {
		name   string
		config func(*Config)
		rows   string
		want   *wire.Owner
	}{
		{"none", nil, row0(""), nil},
		{"empty labels", nil, row0(`,container="",namespace="",pod=""`), nil},
		{"pod with UID", nil, row0(`,namespace="a",pod="p",pod_uid="u-1"`), &wire.Owner{Namespace: "a", Pod: "p", Uid: "u-1"}},
		{"Slurm job", nil, row0(`,hpc_job="4711",job="dcgm"`), &wire.Owner{Job: "4711"}},
		{"exported", nil, row0(`,namespace="gpu-operator",pod="exp",exported_namespace="a",exported_pod="p"`), &wire.Owner{Namespace: "a", Pod: "p"}},
		{"scraper's labels on a free GPU", nil, row0(`,namespace="gpu-operator",pod="exp",container="exporter"`) + other, nil},
		{"the exporter's own pod", nil, row0(`,namespace="gpu-operator",pod="exp",container="nvidia-dcgm-exporter"`), nil},
		{
			"configured",
			func(c *Config) {
				c.OwnerLabels = OwnerLabels{Tenant: []string{"team", "org"}, Project: []string{"proj"}, User: []string{"u"}, Account: []string{"acc"}}
			},
			row0(`,org="o",proj="x",u="me",acc="12",namespace="a"`), &wire.Owner{Tenant: "o", Project: "x", User: "me", Account: "12"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, c.config).gpus(c.rows)[0]
			var want []*wire.Hold
			if c.want != nil {
				want = []*wire.Hold{{Leaf: "gpu", Owner: c.want}}
			}
			diff(t, want, g.Holds)
		})
	}
}

func TestAttributionAndEnumerationAsConfigured(t *testing.T) {
	b := newRig(t, func(c *Config) {
		c.Attribution, c.Enumeration = AttributionNone, EnumerationPartial
	}).batch(row("DCGM_FI_DEV_GPU_UTIL", h100+owned, 3))
	if b.Attribution != wire.Attribution_ATTRIBUTION_FAILED || b.Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("attribution %v, enumeration %v; want failed and partial", b.Attribution, b.Enumeration)
	}
}

func TestOutages(t *testing.T) {
	good := row("DCGM_FI_DEV_GPU_UTIL", h100, 3)
	for _, c := range []struct {
		name  string
		text  string
		reply http.HandlerFunc
		want  string
	}{
		{"empty body", "", nil, "no GPU rows"},
		{"rows of other things", "go_goroutines 7\n", nil, "no GPU rows"},
		{"cut off in a line", good + `DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GP`, nil, "line 2"},
		{"cut off in a value", good + `DCGM_FI_DEV_GPU_TEMP{gpu="0"} 4`, nil, "line 2"},
		{"web page", "<html>sign in</html>\n", nil, "line 1"},
		{"value that is no number", good + "# x\n" + `DCGM_FI_DEV_GPU_TEMP{gpu="0"} hot` + "\n", nil, "line 3"},
		{"status", "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "503"},
		{"broken connection", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, good)
		}, "line 2"},
		{"body over the limit", strings.Repeat(good, 100), nil, "body_limit_bytes 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.BodyLimitBytes = 4096 })
			r.reply = c.reply
			batches, err := r.read(c.text)
			if len(batches) != 0 {
				t.Errorf("got batches %v in an outage", batches)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), r.url) {
				t.Errorf("error %v, want one with %s and %q", err, r.url, c.want)
			}
			if r.counter("gputally_exporter_scrape_success", r.url) != 0 {
				t.Error("scrape_success is 1 in an outage")
			}
		})
	}
}

func TestScrapeIsBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Timeout = 50 * time.Millisecond })
	release := make(chan struct{})
	r.reply = func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
		case <-release:
		}
	}
	defer close(release)
	_, err := r.read("")
	if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("error %v, want a deadline", err)
	}
}

func TestSecondTypeLineAndCommentsAreSurvived(t *testing.T) {
	r := newRig(t, nil)
	g := r.gpu("# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n" + row("DCGM_FI_DEV_GPU_TEMP", h100, 40) +
		"# TYPE DCGM_FI_DEV_GPU_TEMP counter\n" + row("DCGM_FI_DEV_GPU_TEMP", h100, 40) + "  # the end")
	diff(t, []float64{40}, g.MetricValues)
}

func TestOneBadExporterDoesNotHideTheOthers(t *testing.T) {
	bad := "http://127.0.0.1:1/metrics"
	r := newRig(t, func(c *Config) { c.Targets = append(c.Targets, Target{URL: bad}) })
	batches, err := r.read(row("DCGM_FI_DEV_GPU_UTIL", h100, 3))
	if len(batches) != 1 || batches[0].Enumeration != wire.Enumeration_ENUMERATION_COMPLETE {
		t.Errorf("got %v, want one complete batch", batches)
	}
	if err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("error %v, want one that names %s", err, bad)
	}
}

func TestNodeOfTwoExportersIsPartialWhenOneFails(t *testing.T) {
	second := newRig(t, nil) // only its server is used
	r := newRig(t, func(c *Config) { c.Targets = append(c.Targets, Target{URL: second.url, TrustHostname: true}) })
	second.text = row("DCGM_FI_DEV_GPU_UTIL", `gpu="1",UUID="GPU-z",modelName="Tesla T4",Hostname="n1"`, 3)
	if b := r.batch(row("DCGM_FI_DEV_GPU_UTIL", h100, 3)); len(b.Gpus) != 2 || b.Enumeration != wire.Enumeration_ENUMERATION_COMPLETE {
		t.Fatalf("got %v, want both GPUs in one complete batch", b)
	}
	second.mu.Lock()
	second.text = ""
	second.mu.Unlock()
	batches, err := r.read(row("DCGM_FI_DEV_GPU_UTIL", h100, 3))
	if err == nil || len(batches) != 1 || len(batches[0].Gpus) != 1 || batches[0].Enumeration != wire.Enumeration_ENUMERATION_PARTIAL {
		t.Errorf("got %v and error %v, want one GPU in a partial batch, and an error", batches, err)
	}
}
