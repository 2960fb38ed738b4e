// Package gpusim runs a deterministic simulation of NVIDIA's DCGM and NVML in
// a test's process, so that the cgo path of go-dcgm and go-nvml is tested
// without a GPU. In: configuration lines (testdata/gpusim/README.md) and
// virtual time. Out: the two C libraries, already loaded under the names the
// bindings open, and the exact integrals that a test compares with.
//
// Invariants: the model is one per process, and so is DCGM's handle in
// go-dcgm, so tests that use it don't run in parallel; Open refuses a second
// one. The same seed and the same lines give the same bytes. What can go
// wrong: no C compiler (the test is skipped, or fails where CI=true); a line
// that the model refuses (the test fails with the line and the reason).
package gpusim
