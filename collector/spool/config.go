package spool

import (
	"fmt"
	"log/slog"
)

// Policy determines what Append does when the spool has reached MaxBytes.
type Policy int

const (
	// DropOldest drops the oldest segment: for live sources, whose next slot can't wait.
	DropOldest Policy = iota
	// Block waits for acknowledgements to free space, until ctx ends: for simulation, replay and import.
	Block
)

// Options of a spool; zero values take the defaults.
type Options struct {
	// SegmentBytes is the size at which a segment is sealed and a new one created. Default 16 MiB, at most a quarter
	// of MaxBytes.
	SegmentBytes int64
	// MaxBytes bounds the total size of the segments. Default 1 GiB.
	MaxBytes int64
	Policy   Policy
	// Describe returns a record's origin, for Meta and for the ranges of lost records. It is called for each appended
	// record, so it should read no more than necessary. Nil, or false: the record has none.
	Describe func(data []byte) (Origin, bool)
	Log      *slog.Logger // nil: silent

	fs fileSystem // replaced in tests
}

const (
	defaultSegmentBytes = 16 << 20
	defaultMaxBytes     = 1 << 30
	minMaxBytes         = 4096
)

func (o Options) withDefaults() (Options, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxBytes < minMaxBytes {
		return o, fmt.Errorf("max bytes is %d, want %d or more", o.MaxBytes, minMaxBytes)
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.SegmentBytes < 0 {
		return o, fmt.Errorf("segment bytes is %d, want a positive size", o.SegmentBytes)
	}
	o.SegmentBytes = min(o.SegmentBytes, o.MaxBytes/4)
	if o.Policy != DropOldest && o.Policy != Block {
		return o, fmt.Errorf("policy is %d, want DropOldest (%d) or Block (%d)", o.Policy, DropOldest, Block)
	}
	if o.Describe == nil {
		o.Describe = func([]byte) (Origin, bool) { return Origin{}, false }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.fs == nil {
		o.fs = osFS{}
	}
	return o, nil
}
