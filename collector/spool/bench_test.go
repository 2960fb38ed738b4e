package spool

import (
	"context"
	"testing"
)

func BenchmarkAppend100Of1KiB(b *testing.B) {
	s := open(b, b.TempDir(), Options{MaxBytes: 256 << 20})
	var recs [][]byte
	for seq := range uint64(100) {
		recs = append(recs, record(1, seq, 1024))
	}
	b.SetBytes(100 * 1024)
	for b.Loop() {
		if _, err := s.Append(context.Background(), recs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkOpen256MiB(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, Options{MaxBytes: 512 << 20})
	recs := make([][]byte, 1024)
	for i := range recs {
		recs[i] = record(1, uint64(i), 4096)
	}
	for range 64 {
		if _, err := s.Append(context.Background(), recs); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(256 << 20)
	for b.Loop() {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		s = open(b, dir, Options{MaxBytes: 512 << 20})
	}
}
