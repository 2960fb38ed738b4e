package imports

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/bounded"
	"github.com/gputally/gputally/internal/costtest"
)

// packed is a gzip stream of a head and a body that comes again until there are
// so many bytes, made while it is read.
func packed(t *testing.T, head, body string, bytes int) io.Reader {
	t.Helper()
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = reader.Close() })
	body = strings.Repeat(body, 1<<20/len(body)+1)
	go func() {
		pack, _ := gzip.NewWriterLevel(writer, gzip.BestSpeed)
		_, err := io.WriteString(pack, head)
		for wrote := 0; wrote < bytes && err == nil; wrote += len(body) {
			_, err = io.WriteString(pack, body)
		}
		_ = writer.CloseWithError(errors.Join(err, pack.Close()))
	}()
	return reader
}

const flat = 96 << 20 // bytes of heap, whatever the file

// TestL6PackedFilesTakeFlatMemory: what unpacks to two gigabytes is read in flat
// memory where its rows are none of ours, or refused.
func TestL6PackedFilesTakeFlatMemory(t *testing.T) {
	const header = "job,user,start,end,gpus\n"
	window := Reading{Zone: time.UTC, Delimiter: ',', WindowFromMS: 3_600_000, WindowToMS: 7_200_000}
	for name, c := range map[string]struct {
		head, body string
		bytes      int
		read       func(io.Reader, Reading) (*File, error)
		want       string
	}{
		"a field":         {header + "\"", "a", 2 << 30, ReadAllocations, "after line 1: a record of more than"},
		"empty lines":     {header, "\n", 2 << 30, ReadAllocations, "a record of more than"},
		"a header":        {"", "a", 2 << 30, ReadAllocations, "read header"},
		"a JSON line":     {"{\"a\":\"", "a", 2 << 30, ReadAllocations, "too long"},
		"a line of sacct": {"JobID|Start|End|AllocTRES\n", "a", 2 << 30, ReadSacct, "too long"},
		"bad rows": {
			header, strings.Repeat("x", 900) + ",u,y,2,1\n", 2 << 30, ReadAllocations,
			"more than 100000 bad rows",
		},
		"bad rows of sacct": {
			"JobID|Start|End|AllocTRES\n", strings.Repeat("x", 900) + "\n", 2 << 30, ReadSacct,
			"more than 100000 bad rows",
		},
		"rows of no window": {
			header, "1," + strings.Repeat("u", 900) + ",1000000000,1000010000,1\n", 256 << 20,
			ReadAllocations, "",
		},
		// A record that is kept keeps nothing of its row.
		"large rows": {
			header, "1," + strings.Repeat(" ", 1<<17) + ",1000000000,1000003600,1\n", 512 << 20,
			ReadAllocations, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var file *File
			var err error
			peak := costtest.Peak(func() { file, err = c.read(packed(t, c.head, c.body, c.bytes), window) })
			if peak > flat {
				t.Errorf("held %d MB, want at most %d", peak>>20, flat>>20)
			}
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000):
				t.Errorf("error %.300v, want %s", err, c.want)
			case c.want == "" && (err != nil || file.Rows < c.bytes/(1<<20) || len(file.Bad) > 0):
				t.Errorf("%+v, %v", file, err)
			}
		})
	}
}

// TestL6RecordsAreBounded: of many rows that are ours, as many are held as an
// import can carry out, and one row's nodes count.
func TestL6RecordsAreBounded(t *testing.T) {
	job := "1|2001-01-01T00:00:01|2001-01-01T00:00:02|gres/gpu=65536|n[1-65536]\n"
	text := "JobID|Start|End|AllocTRES|NodeList\n" + strings.Repeat(job, 100)
	if _, err := ReadSacct(strings.NewReader(text), Reading{Zone: time.UTC, ByNode: true}); err == nil ||
		!strings.Contains(err.Error(), "more than 1000000 records by line 17") {
		t.Errorf("error %v, want the records bounded", err)
	}
	list := strings.Repeat("n", 100<<10) + "[0-65535]" // 6.7 GB of names
	text = "JobID|Start|End|AllocTRES|NodeList\n1|2001-01-01T00:00:01|2001-01-01T00:00:02|gres/gpu=65536|" + list + "\n"
	costtest.Within(t, costtest.Time, 64<<20, func() {
		file, err := ReadSacct(strings.NewReader(text), Reading{Zone: time.UTC, ByNode: true})
		if err != nil || len(file.Bad) != 1 || len(file.Records) != 0 {
			t.Errorf("long names of nodes: %v, want one bad row", err)
		}
	})
	var types strings.Builder
	for i := range 70_000 {
		fmt.Fprintf(&types, "gres/gpu:t%d=1,", i)
	}
	costtest.Within(t, costtest.Time, 64<<20, func() {
		if _, err := gpusOf(types.String()); err == nil || len(err.Error()) > 500 {
			t.Errorf("error %.100v of 70,000 types", err)
		}
	})
}

// TestL7FreeTextIsRefused: a job's name could add a row of anybody.
func TestL7FreeTextIsRefused(t *testing.T) {
	const forged = "x\n7|x|victim|2026-03-01T00:00:00|2026-03-01T01:00:00|gres/gpu=272"
	for _, column := range []string{"JobName", "Comment", " comment%40", "WorkDir", "SubmitLine", "Extra", "Constraints"} {
		text := "JobID|" + column + "|User|Start|End|AllocTRES\n1|" + forged +
			"|u|2026-03-01T00:00:00|2026-03-01T01:00:00|gres/gpu=1\n"
		_, err := ReadSacct(strings.NewReader(text), Reading{Zone: time.UTC})
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(column)) || !strings.Contains(err.Error(),
			"--format=JobID,") {
			t.Errorf("column %s: error %v, want it named, and what to print instead", column, err)
		}
	}
	text := "JobID|User|Start|End|AllocTRES\n1|a|b|2026-03-01T00:00:00|2026-03-01T01:00:00|gres/gpu=1\n"
	file, err := ReadSacct(strings.NewReader(text), Reading{Zone: time.UTC})
	if err != nil || len(file.Bad) != 1 || file.Bad[0].Line != 2 || len(file.Records) != 0 {
		t.Errorf("a row of six fields under five: %+v, %v", file, err)
	}
}

// TestL9ReadingEndsWithItsContext: in the middle of a file that never ends.
func TestL9ReadingEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		head, row string
		read      func(io.Reader, Reading) (*File, error)
	}{
		"allocations": {"start,end,gpus\n", "1000000000,1000010000,1\n", ReadAllocations},
		"sacct":       {"JobID|Start|End|AllocTRES\n", "1|1000000000|1000010000|gres/gpu=1\n", ReadSacct},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			endless := packed(t, c.head, c.row, 1<<62)
			half := io.MultiReader(io.LimitReader(endless, 64<<10), cancelling{endless, cancel})
			_, err := c.read(bounded.Reader(ctx, half),
				Reading{Zone: time.UTC, Delimiter: ',', WindowFromMS: 3_600_000, WindowToMS: 7_200_000})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want the context's", err)
			}
		})
	}
}

// cancelling ends a context as it is read from.
type cancelling struct {
	io.Reader
	cancel context.CancelFunc
}

func (c cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return c.Reader.Read(p)
}
