package nvml

import "testing"

// BenchmarkRead is a slot of 8 GPUs with 56 instances, and of 8 whole GPUs. The
// simulator's own share of it is what the model computes.
func BenchmarkRead(b *testing.B) {
	for name, lines := range map[string]string{"whole": "gpus 8", "mig": "gpus 8; mig all 1g.10gb*7"} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, lines)
			r.read()
			b.ReportAllocs()
			for b.Loop() {
				r.pass(slotLength)
				if _, err := r.src.Read(b.Context(), r.slot); err != nil {
					b.Fatal(err)
				}
				r.slot = r.slot.Next()
			}
		})
	}
}
