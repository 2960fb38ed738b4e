//go:build mutants

package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/placetest"
)

var (
	count    = flag.Int("mutants", 1000, "how many mutants to make in all")
	seed     = flag.Uint64("mutant-seed", 1, "seed of the choice")
	packages = flag.String("mutant-packages",
		"internal/meter,billing/rating,ingest/ledger,internal/decisions,collector/spool,internal/httpd/guard",
		"directories, with commas")
	least = flag.Float64("least-killed", 0.9, "share of the mutants that has to be killed")
)

// outcome of one mutant.
type outcome int

const (
	killed outcome = iota
	survived
	uncompilable
)

// perMutant is how long a package's tests may take on a mutant: one that runs on
// is killed as well.
const perMutant = 4 * time.Minute

// TestMutantsAreKilled draws mutants from the packages in turn, two at a time, and
// runs the package's own tests on each.
func TestMutantsAreKilled(t *testing.T) {
	root, err := placetest.Root()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(*seed, 1))
	dirs := strings.Split(*packages, ",")
	sites := map[string][]Site{}
	for _, dir := range dirs {
		if sites[dir], err = Find(root, dir); err != nil || len(sites[dir]) == 0 {
			t.Fatalf("%s: %d places to change, %v", dir, len(sites[dir]), err)
		}
		rng.Shuffle(len(sites[dir]), func(i, j int) { sites[dir][i], sites[dir][j] = sites[dir][j], sites[dir][i] })
	}
	var mu sync.Mutex
	var workers sync.WaitGroup
	made, dead := map[string]int{}, map[string]int{}
	var alive []string
	next := func() (Site, bool) { // from the package that has the fewest
		mu.Lock()
		defer mu.Unlock()
		all, least := 0, ""
		for _, dir := range dirs {
			all += made[dir]
			if len(sites[dir]) > 0 && (least == "" || made[dir] < made[least]) {
				least = dir
			}
		}
		if all >= *count || least == "" {
			return Site{}, false
		}
		s := sites[least][0]
		sites[least] = sites[least][1:]
		made[least]++
		return s, true
	}
	for range 2 {
		workers.Go(func() {
			for s, ok := next(); ok; s, ok = next() {
				o, err := try(t.Context(), root, s)
				mu.Lock()
				switch {
				case err != nil:
					t.Errorf("%s: %v", s, err)
				case o == uncompilable:
					made[s.PackageDir]--
				case o == killed:
					dead[s.PackageDir]++
				default:
					alive = append(alive, s.String())
					t.Logf("survived: %s", s)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	report(t, dirs, made, dead, alive)
}

func report(t *testing.T, dirs []string, made, dead map[string]int, alive []string) {
	t.Helper()
	all, allDead := 0, 0
	for _, dir := range dirs {
		t.Logf("%-24s %4d of %4d killed", dir, dead[dir], made[dir])
		all, allDead = all+made[dir], allDead+dead[dir]
	}
	slices.Sort(alive)
	t.Logf("%d of %d killed (%.1f %%), seed %d; survivors:\n%s", allDead, all, 100*float64(allDead)/float64(max(all, 1)),
		*seed, strings.Join(alive, "\n"))
	if float64(allDead) < *least*float64(all) {
		t.Errorf("%d of %d mutants were killed, want %.0f %%", allDead, all, 100**least)
	}
}

// try runs a package's tests on a mutant.
func try(ctx context.Context, root string, s Site) (outcome, error) {
	original := filepath.Join(root, s.File)
	text, err := os.ReadFile(original)
	if err != nil {
		return survived, err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return survived, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bad, list, binary := filepath.Join(dir, filepath.Base(s.File)), filepath.Join(dir,
		"overlay.json"), filepath.Join(dir, "test")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{original: bad}})
	if err := errors.Join(err,
		os.WriteFile(bad, []byte(string(text[:s.from])+s.Is+string(text[s.to:])), 0o600),
		os.WriteFile(list, replaced, 0o600)); err != nil {
		return survived, err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay="+list, "-o="+binary, "./"+s.PackageDir)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		if ctx.Err() != nil || !strings.Contains(string(out), filepath.Base(s.File)) {
			return survived, fmt.Errorf("build: %w: %s", err, out)
		}
		return uncompilable, nil
	}
	run := exec.CommandContext(ctx, binary, "-test.short", "-test.failfast", "-test.timeout="+perMutant.String())
	run.Dir = filepath.Join(root, s.PackageDir)
	if out, err := run.CombinedOutput(); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			return survived, fmt.Errorf("run: %w: %s", err, out)
		}
		return killed, nil
	}
	return survived, nil
}
