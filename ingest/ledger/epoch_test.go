package ledger_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/wire"
)

// service is a ledger with a tenants file of its own, what it logs and counts.
type service struct {
	*ledger.Ledger
	file string
	log  bytes.Buffer
	reg  *prometheus.Registry
}

// service starts one whose file names every owner's tenant.
func (h *house) service(t *testing.T, s ledger.Store, tenant string) *service {
	t.Helper()
	out := &service{file: filepath.Join(t.TempDir(), "tenants.yaml")}
	text := "versions:\n- effective: 2026-03-02T01:00:00Z\n  rules:\n  - {tenant: " + tenant + "}\n"
	if err := os.WriteFile(out.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out.restart(t, h, s)
	return out
}

// restart makes the process anew.
func (s *service) restart(t *testing.T, h *house, db ledger.Store) {
	t.Helper()
	cfg := ledger.DefaultConfig()
	cfg.TenantsFile = s.file
	s.reg = prometheus.NewRegistry()
	var err error
	s.Ledger, err = ledger.New(cfg, ledger.Deps{Store: db, Clock: h.clock, Log: slog.New(slog.NewTextHandler(&s.log, nil)), Registry: s.reg})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *service) passes(t *testing.T, hours int) {
	t.Helper()
	if n, err := s.Pass(t.Context()); err != nil || n != hours {
		t.Errorf("pass of the service of %s: %d hours, %v; want %d", s.file, n, err, hours)
	}
}

func (s *service) metric(t *testing.T, name, want string) {
	t.Helper()
	if err := testutil.GatherAndCompare(s.reg, strings.NewReader(want+"\n"), name); err != nil {
		t.Error(err)
	}
}

const (
	dumpEpochs  = `SELECT concat(toString(epoch), ' ', extract(tenants, 'tenant: (\\w+)'), ' ', formatDateTime(effective, '%d %H', 'UTC')) AS line FROM epochs FINAL ORDER BY epoch, mapping`
	dumpTenants = `SELECT DISTINCT concat(formatDateTime(hour, '%H', 'UTC'), ' ', arrayStringConcat(tenant, ',')) AS line FROM usage_hourly FINAL ORDER BY line`

	differs     = "gputally_ledger_tenant_mapping_differs"
	differsHelp = "# HELP " + differs + " 1 if the ledger is published under another tenant mapping than that of this service's file.\n# TYPE " + differs + " gauge\n" + differs
)

// threeHours is a GPU that team holds, from Monday on.
func threeHours(t *testing.T) *house {
	h := newHouse(t, clock.NewFake(monday.Add(8*time.Hour)))
	f := newFleet(1, time.Minute, 1, 0)
	batches := f.node(monday, monday.Add(3*time.Hour), "A")
	for _, b := range batches {
		b.Gpus[0].Holds = append(b.Gpus[0].Holds, &wire.Hold{Leaf: "gpu", Owner: &wire.Owner{Uid: "pod", Namespace: "team", Pod: "pod"}})
	}
	h.topic.append(t, batches...)
	h.ingest(t)
	return h
}

// TestServicesWithDifferentFilesDoNotPublishInTurn: the one that started last
// with a new mapping has its way, the other follows and says so (R15).
func TestServicesWithDifferentFilesDoNotPublishInTurn(t *testing.T) {
	h := threeHours(t)
	a := h.service(t, h.db, "alpha")
	a.passes(t, 3)
	b := h.service(t, h.db, "beta")
	b.passes(t, 2)
	for range 3 {
		a.passes(t, 0)
		b.passes(t, 0)
	}
	h.want(t, "epochs", dumpEpochs, "1 alpha 01 00", "2 beta 02 01")
	h.want(t, "tenants", dumpTenants, "00 team", "01 beta", "02 beta")
	a.metric(t, differs, differsHelp+" 1")
	b.metric(t, differs, differsHelp+" 0")
	if n := strings.Count(a.log.String(), "tenants file is not"); n != 1 || !strings.Contains(a.log.String(), "tenants_file="+a.file) {
		t.Errorf("the service that follows must name its file once, logged:\n%s", a.log.String())
	}

	a.restart(t, h, h.db)
	a.passes(t, 2)
	b.passes(t, 0)
	h.want(t, "epochs after a restart", dumpEpochs, "1 alpha 01 00", "2 beta 02 01", "3 alpha 02 01")
	h.want(t, "tenants after a restart", dumpTenants, "00 team", "01 alpha", "02 alpha")
	b.metric(t, differs, differsHelp+" 1")
	verified(t, "after the restart", b.Ledger)
}

// overtaken lets another service publish just before the first epoch that goes
// through it is written.
type overtaken struct {
	ledger.Store
	by func()
}

func (o *overtaken) Insert(ctx context.Context, table string, in proto.Input) error {
	if by := o.by; table == "epochs" && by != nil {
		o.by = nil
		by()
	}
	return o.Store.Insert(ctx, table, in)
}

// TestTheSameEpochStartedTwice: two mappings under one number are told, one of
// them is in force for everybody, and what was published under the other is
// published anew (R5, R15).
func TestTheSameEpochStartedTwice(t *testing.T) {
	for _, names := range [][2]string{{"alpha", "beta"}, {"beta", "alpha"}} {
		t.Run(names[0]+" first", func(t *testing.T) {
			h := threeHours(t)
			first := h.service(t, h.db, names[0])
			store := &overtaken{Store: h.db, by: func() { first.passes(t, 3) }}
			second := h.service(t, store, names[1])
			if _, err := second.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			second.passes(t, 0)
			first.passes(t, 0)
			epochs := h.dump(t, dumpEpochs)
			if len(epochs) != 3 || !strings.HasPrefix(epochs[1], "1 ") {
				t.Fatalf("epochs are %q, want two of number 1 and one that settles it", epochs)
			}
			_, inForce, _ := strings.Cut(epochs[0], " ") // of the smaller SHA-256
			inForce, _, _ = strings.Cut(inForce, " ")
			if want := "2 " + inForce + " 02 01"; epochs[2] != want {
				t.Errorf("settled by %q, want %q", epochs[2], want)
			}
			h.want(t, "tenants", dumpTenants, "00 team", "01 "+inForce, "02 "+inForce)
			if !strings.Contains(second.log.String(), "started the same epoch") {
				t.Errorf("nothing is told of it:\n%s", second.log.String())
			}
			reader := h.ledger(t, h.db, func(c *ledger.Config) { c.KeepMapping = true })
			verified(t, "a third process", reader)
		})
	}
}

// TestNewerRulesAreNotTakenBack: a program of older rules must not publish over
// those of a newer one, nor compare with its own (R5).
func TestNewerRulesAreNotTakenBack(t *testing.T) {
	h := threeHours(t)
	h.service(t, h.db, "alpha").passes(t, 3)
	before := h.dump(t, dumpUsage)
	h.exec(t, `INSERT INTO epochs (epoch, rules, mapping, tenants, effective, created_at, claim) SELECT 2, 60000, mapping, tenants, effective, created_at, 'x' FROM epochs`)
	old := h.service(t, h.db, "beta")
	if _, err := old.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "60000") {
		t.Errorf("pass of an older program: %v, want it refused", err)
	}
	if diff := cmp.Diff(before, h.dump(t, dumpUsage)); diff != "" {
		t.Errorf("it changed rows (-want +got):\n%s", diff)
	}
}

// TestM1AnEpochThatNoFileAccountsForFailsC6: whoever may write ClickHouse can start
// an epoch of another mapping, which every ingester follows.
func TestM1AnEpochThatNoFileAccountsForFailsC6(t *testing.T) {
	h := threeHours(t)
	ours := h.service(t, h.db, "ours")
	ours.passes(t, 3)
	forged := h.service(t, h.db, "forged")
	forged.passes(t, 2)
	ours.passes(t, 0)
	unseen := h.service(t, h.db, "unseen")
	for _, c := range []struct {
		name, file string
		compare    bool
		fails      bool
		noted      int64
	}{
		{"the file of before", ours.file, true, true, 0},
		{"the file in force", forged.file, true, false, 0},
		{"a file that waits for a restart", unseen.file, true, false, 1},
		{"no configuration", "", false, false, 1},
	} {
		verifier := h.ledger(t, h.db, func(cfg *ledger.Config) {
			cfg.TenantsFile, cfg.KeepMapping, cfg.CompareMapping = c.file, true, c.compare
		})
		results, err := check.Run(t.Context(), verifier.Checks()[1:2])
		if err != nil {
			t.Fatal(err)
		}
		got := results[0]
		if got.Name != "C6" || got.Failed() != c.fails || got.Noted != c.noted {
			t.Errorf("%s: got %+v, want C6 that fails: %t, with %d notes", c.name, got, c.fails, c.noted)
		}
		if c.fails && !strings.Contains(strings.Join(got.Findings, " "), "epoch 2 publishes under tenant mapping ") {
			t.Errorf("%s: findings %q name no epoch", c.name, got.Findings)
		}
	}
}
