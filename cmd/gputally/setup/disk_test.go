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
	want := diskPerDay{holds: ten.holds / 2, samples: ten.samples / 2, journal: ten.journal / 2, usage: ten.usage}
	if diff := cmp.Diff(want, twenty, cmp.AllowUnexported(diskPerDay{})); diff != "" {
		t.Errorf("a day in slots twice as long (-want +got):\n%s", diff)
	}
}
