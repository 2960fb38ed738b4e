package gpusim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Whole is the instance id of an Entity that isn't an instance.
const Whole = -1

// Entity names a GPU, a GPU instance or a compute instance by its index and
// NVML ids; GI and CI are Whole where there is none.
type Entity struct{ GPU, GI, CI int }

// GPU is the entity of a whole GPU.
func GPU(gpu int) Entity { return Entity{gpu, Whole, Whole} }

// GPUInstance is the entity of a MIG GPU instance.
func GPUInstance(gpu, gi int) Entity { return Entity{gpu, gi, Whole} }

// ComputeInstance is the entity of a MIG compute instance.
func ComputeInstance(gpu, gi, ci int) Entity { return Entity{gpu, gi, ci} }

// Sim is the model of this process. Its state is global: there is one at a
// time, and its methods are safe for use by several goroutines.
type Sim struct {
	tb  testing.TB
	lib *library
}

// owner is the test that uses the model.
var owner struct {
	sync.Mutex
	name string
}

// Open builds and loads the libraries and empties the model: no GPUs, virtual
// clock at 2026-01-01T00:00:00Z, no faults, call counters at zero. A DCGM
// connection from before Open is invalid afterwards.
//
// Without a C toolchain the test is skipped with the reason, or fails where
// CI=true. The model belongs to tb until it ends; its subtests share it.
func Open(tb testing.TB) *Sim {
	tb.Helper()
	lib, err := load()
	if errors.Is(err, ErrNoCompiler) && os.Getenv("CI") != "true" {
		tb.Skipf("no simulated GPUs: %v", err)
	}
	if err != nil {
		tb.Fatalf("no simulated GPUs: %v", err)
	}
	if err := claim(tb.Name()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		lib.reset()
		release()
	})
	lib.reset()
	return &Sim{tb: tb, lib: lib}
}

func claim(name string) error {
	owner.Lock()
	defer owner.Unlock()
	if owner.name != "" {
		return fmt.Errorf("the simulated GPUs are global and %s has them: pass its Sim on, and don't run in parallel",
			owner.name)
	}
	owner.name = name
	return nil
}

func release() {
	owner.Lock()
	defer owner.Unlock()
	owner.name = ""
}

// Do executes configuration lines, separated by newlines or semicolons. A
// line that the model refuses fails the test with the line and the reason.
func (s *Sim) Do(lines string) {
	s.tb.Helper()
	if err := s.try(lines); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *Sim) try(lines string) error {
	reason := make([]byte, 512)
	if s.lib.do(lines, &reason[0], uintptr(len(reason))) != 0 {
		text, _, _ := bytes.Cut(reason, []byte{0})
		return fmt.Errorf("gpusim: %s", text)
	}
	s.lib.notice()
	return nil
}

// Advance moves the virtual clock forward. Lines that were set with "at" are
// executed at their own instants.
func (s *Sim) Advance(d time.Duration) {
	s.tb.Helper()
	if d < 0 {
		s.tb.Fatalf("gpusim: advance by %v: the clock only moves on", d)
	}
	s.lib.advanceUS(d.Microseconds())
	s.lib.notice()
}

// SetTime moves the virtual clock on to t, or, as long as there are no GPUs,
// starts it there. The model counts whole microseconds.
func (s *Sim) SetTime(t time.Time) {
	s.tb.Helper()
	if d := t.Sub(s.Now()); d >= 0 {
		s.Advance(d)
		return
	}
	s.Do(fmt.Sprintf("clock virtual %d", t.UnixMicro()))
}

// Now is the model's time.
func (s *Sim) Now() time.Time { return time.UnixMicro(s.lib.clockUS()).UTC() }

// Calls counts the calls of a C function since Open, for example
// "dcgmWatchFields".
func (s *Sim) Calls(symbol string) uint64 { return s.lib.calls(symbol) }

// DCGM is the absolute path of the simulated libdcgm.so.4.
func (s *Sim) DCGM() string { return filepath.Join(s.lib.dir, libDCGM) }

// NVML is the absolute path of the simulated libnvidia-ml.so.1.
func (s *Sim) NVML() string { return filepath.Join(s.lib.dir, libNVML) }

// TruthEnergyMillijoules is the exact integral of a GPU's power between two
// instants, over counter restarts.
func (s *Sim) TruthEnergyMillijoules(gpu int, from, to time.Time) float64 {
	s.tb.Helper()
	v := s.lib.truthEnergyMJ(uint32(gpu), from.UnixMicro(), to.UnixMicro())
	if v < 0 {
		s.tb.Fatalf("gpusim: energy of GPU %d, which isn't there", gpu)
	}
	return v
}

// TruthActivity is the exact mean SM activity (0..1) of an entity between two
// instants, or its value at one. Times without the instance count as zero.
func (s *Sim) TruthActivity(e Entity, from, to time.Time) float64 {
	s.tb.Helper()
	v := s.lib.truthActivity(uint32(e.GPU), int32(e.GI), int32(e.CI), from.UnixMicro(), to.UnixMicro())
	if v < 0 {
		s.tb.Fatalf("gpusim: activity of GPU %d, which isn't there", e.GPU)
	}
	return v
}
