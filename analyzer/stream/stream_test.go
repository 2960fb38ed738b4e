package stream

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// synthetic is a stream of three weeks with anomalies in its last ten days.
type synthetic struct {
	times  []time.Time
	values []float64
	begins []time.Time // of the anomalies
}

// kinds of synthetic streams.
var kinds = []string{"daily", "flat", "walk", "bursts", "levels"}

func makeStream(kind string, seed uint64) synthetic {
	rng := rand.New(rand.NewPCG(seed, 3))
	var s synthetic
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	end := at.Add(21 * 24 * time.Hour)
	walk := 0.0
	type event struct {
		from, to time.Time
		by       float64
	}
	var events []event
	for range 1 + rng.IntN(3) {
		from := at.Add(11*24*time.Hour + time.Duration(rng.Float64()*9*24*float64(time.Hour)))
		events = append(events, event{from, from.Add(time.Duration(1+rng.IntN(180)) * time.Minute), (4 + 4*rng.Float64()) * float64(1-2*rng.IntN(2))})
		s.begins = append(s.begins, from)
	}
	phase := rng.Float64()
	for ; at.Before(end); at = at.Add(5*time.Minute + time.Duration(rng.IntN(20))*time.Second) {
		dayPart := math.Mod(float64(at.Unix())/86400+phase, 1)
		v := rng.NormFloat64()
		switch kind {
		case "daily":
			v = 10*math.Max(0, math.Sin(2*math.Pi*dayPart)) + v
		case "walk":
			walk = 0.995*walk + 0.2*rng.NormFloat64()
			v = walk + 0.3*v
		case "bursts":
			if math.Mod(dayPart*24, 3) < 0.25 {
				v += 12
			}
		case "levels":
			if dayPart < 0.4 {
				v = 0.1*v + 20
			} else {
				v *= 0.1
			}
		}
		for _, e := range events {
			if !at.Before(e.from) && at.Before(e.to) {
				scale := map[string]float64{"levels": 0.5, "walk": 0.8}[kind]
				if scale == 0 {
					scale = 1.5
				}
				v += e.by * scale
			}
		}
		s.times, s.values = append(s.times, at), append(s.values, v)
	}
	return s
}

func TestSynthetic(t *testing.T) {
	for _, kind := range kinds {
		planted, found, false_ := 0, 0, 0
		for seed := range uint64(12) {
			s := makeStream(kind, seed)
			d := New()
			hit := make([]bool, len(s.begins))
			for i, at := range s.times {
				r, err := d.Add(at, s.values[i])
				if err != nil {
					t.Fatal(err)
				}
				if !r.Alarm {
					continue
				}
				near := false
				for j, b := range s.begins {
					if !at.Before(b.Add(-10*time.Minute)) && at.Before(b.Add(4*time.Hour)) {
						hit[j], near = true, true
					}
				}
				if !near {
					false_++
				}
			}
			planted += len(hit)
			for _, h := range hit {
				if h {
					found++
				}
			}
		}
		fmt.Printf("%-8s found %d of %d, %.2f false per stream-week\n", kind, found, planted, float64(false_)/12/3)
	}
}

func BenchmarkAdd(b *testing.B) {
	s := makeStream("daily", 1)
	d := New()
	for i := 0; i < b.N; i++ {
		k := i % len(s.times)
		if k == 0 {
			d = New()
		}
		if _, err := d.Add(s.times[k], s.values[k]); err != nil {
			b.Fatal(err)
		}
	}
}
