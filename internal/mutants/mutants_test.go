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
	"regexp"
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
	only  = flag.String("mutant-only", "", "regular expression: only mutants that it finds in FILE:LINE: KIND: WAS → IS")
)

// outcome is the result of testing one mutant.
type outcome int

const (
	killed outcome = iota
	survived
	uncompilable
)

// perMutant is the time limit of a package's tests on a mutant. A mutant that exceeds
// it counts as killed.
const perMutant = 4 * time.Minute

// tallyEvery is the number of mutants after which the figures of each package are
// printed, so that an interrupted run has figures, too.
const tallyEvery = 50

// TestMutantsAreKilled draws mutants from the packages in turn, two at a time, and
// runs the package's own tests on each.
func TestMutantsAreKilled(t *testing.T) {
	root, err := placetest.Root()
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(*seed, 1))
	r := &run{
		t: t, dirs: strings.Split(*packages, ","), sites: map[string][]Site{},
		drawn: map[string]int{}, dead: map[string]int{}, alive: map[string]int{},
	}
	for _, dir := range r.dirs {
		sites, err := Find(root, dir)
		if err != nil || len(sites) == 0 {
			t.Fatalf("%s: %d places to change, %v", dir, len(sites), err)
		}
		rng.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
		r.sites[dir] = slices.DeleteFunc(sites, func(s Site) bool { return !wanted.MatchString(s.String()) })
	}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for s, ok := r.next(); ok; s, ok = r.next() {
				o, err := try(t.Context(), root, s)
				r.note(s, o, err)
			}
		})
	}
	workers.Wait()
	all, dead := r.tally()
	slices.Sort(r.survivors)
	t.Logf("%d of %d killed (%.1f %%), seed %d; survivors:\n%s",
		dead, all, 100*float64(dead)/float64(max(all, 1)), *seed, strings.Join(r.survivors, "\n"))
	if float64(dead) < *least*float64(all) {
		t.Errorf("%d of %d mutants were killed, want %.0f %%", dead, all, 100**least)
	}
}

// run is the state of a run.
type run struct {
	t    *testing.T
	dirs []string

	mu                 sync.Mutex
	sites              map[string][]Site // by package, not drawn yet
	drawn, dead, alive map[string]int    // by package; drawn includes those that are being tested
	survivors          []string
}

// next draws a mutant of the package with the fewest drawn ones.
func (r *run) next() (Site, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, fewest := 0, ""
	for _, dir := range r.dirs {
		all += r.drawn[dir]
		if len(r.sites[dir]) > 0 && (fewest == "" || r.drawn[dir] < r.drawn[fewest]) {
			fewest = dir
		}
	}
	if all >= *count || fewest == "" {
		return Site{}, false
	}
	s := r.sites[fewest][0]
	r.sites[fewest] = r.sites[fewest][1:]
	r.drawn[fewest]++
	return s, true
}

// note counts a tested mutant.
func (r *run) note(s Site, o outcome, err error) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.t.Errorf("%s: %v", s, err)
		return
	case o == uncompilable:
		r.drawn[s.PackageDir]--
		return
	case o == killed:
		r.dead[s.PackageDir]++
	default:
		r.alive[s.PackageDir]++
		r.survivors = append(r.survivors, s.String())
		r.t.Logf("survived: %s", s)
	}
	if tried := total(r.dead) + total(r.alive); tried%tallyEvery == 0 {
		r.tally()
	}
}

// tally prints the numbers of tested and killed mutants of each package.
func (r *run) tally() (all, dead int) {
	r.t.Helper()
	for _, dir := range r.dirs {
		r.t.Logf("%-24s %4d of %4d killed", dir, r.dead[dir], r.dead[dir]+r.alive[dir])
	}
	return total(r.dead) + total(r.alive), total(r.dead)
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// try runs a package's tests with a mutant.
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
	tests := exec.CommandContext(ctx, binary, "-test.short", "-test.failfast", "-test.timeout="+perMutant.String())
	tests.Dir = filepath.Join(root, s.PackageDir)
	if out, err := tests.CombinedOutput(); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			return survived, fmt.Errorf("run: %w: %s", err, out)
		}
		return killed, nil
	}
	return survived, nil
}
