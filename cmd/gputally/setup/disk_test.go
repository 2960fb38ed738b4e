package setup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLedgerRowsDontDependOnTheSlot: all else halves when slots double.
func TestLedgerRowsDontDependOnTheSlot(t *testing.T) {
	fleet := FleetSize{Gpus: 10, Mig: 4}
	ten, twenty := estimateDisk(fleet, 10*time.Second), estimateDisk(fleet, 20*time.Second)
	want := []float64{ten[0] / 2, ten[1] / 2, ten[2] / 2, ten[3]}
	if diff := cmp.Diff(want, twenty); diff != "" {
		t.Errorf("a day in slots twice as long (-want +got):\n%s", diff)
	}
}
