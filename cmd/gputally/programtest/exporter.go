package programtest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gputally/gputally/internal/placetest"
)

// Exposition is the answer of a dcgm-exporter with a free T4.
const Exposition = `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-b",modelName="Tesla T4",Hostname="n2"} 0
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-b",modelName="Tesla T4",Hostname="n2"} 10
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-b",modelName="Tesla T4",Hostname="n2"} 0
`

// FlakyExporter is a dcgm-exporter that doesn't answer at first, and whose answers
// can be made invalid.
type FlakyExporter struct {
	address string
	Spoil   atomic.Pointer[func(w http.ResponseWriter)]
}

// NewFlakyExporter reserves a free address without listening on it.
func NewFlakyExporter(t *testing.T) *FlakyExporter {
	t.Helper()
	return &FlakyExporter{address: net.JoinHostPort(placetest.FreeAddress(t))}
}

// URL is its address.
func (e *FlakyExporter) URL() string { return "http://" + e.address + "/metrics" }

// Start makes it answer at its address.
func (e *FlakyExporter) Start(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if spoil := e.Spoil.Load(); spoil != nil {
			(*spoil)(w)
			return
		}
		_, _ = io.WriteString(w, Exposition)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(context.Background()), <-ended); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
