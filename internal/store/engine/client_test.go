package engine_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/store/storetest"
)

func client(t *testing.T, method clickhouse.CompressionMethod) clickhouse.Conn {
	t.Helper()
	socket := storetest.Socket(t)
	conn, err := clickhouse.Open(&clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{"engine"}, MaxOpenConns: 32,
		Auth:        clickhouse.Auth{Database: database(t)},
		Compression: &clickhouse.Compression{Method: method},
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The contract with clickhouse-go: preflight, blocks, batches, exceptions.
func TestClickHouseGoWorksWithEveryCompression(t *testing.T) {
	for _, method := range []clickhouse.CompressionMethod{
		clickhouse.CompressionNone, clickhouse.CompressionLZ4, clickhouse.CompressionZSTD, clickhouse.CompressionGZIP,
	} {
		t.Run(method.String(), func(t *testing.T) {
			ctx, conn := t.Context(), client(t, method)
			if err := conn.Ping(ctx); err != nil {
				t.Fatal(err)
			}
			if err := conn.Exec(ctx,
				"CREATE TABLE t (n UInt64, s LowCardinality(String), a Array(Nullable(Int32))) ENGINE = MergeTree ORDER BY n"); err != nil {
				t.Fatal(err)
			}
			sendBatch(t, conn, 10_000)
			var sum uint64
			rows, err := conn.Query(ctx, "SELECT n, s, a FROM t WHERE n >= {from:UInt64}", clickhouse.Named("from", 1))
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var n uint64
				var s string
				var a []*int32
				if err := rows.Scan(&n, &s, &a); err != nil {
					t.Fatal(err)
				}
				sum += n
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(uint64(10_000*9_999/2), sum); diff != "" {
				t.Errorf("sum of n (-want +got):\n%s", diff)
			}
			expectMidStreamException(t, conn)
		})
	}
}

func sendBatch(t *testing.T, conn clickhouse.Conn, rows int) {
	t.Helper()
	batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO t (n, s, a)")
	if err != nil {
		t.Fatal(err)
	}
	one := int32(1)
	for n := range rows {
		if err := batch.Append(uint64(n), fmt.Sprint("s", n%7), []*int32{&one, nil}); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
}

func expectMidStreamException(t *testing.T, conn clickhouse.Conn) {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT throwIf(number = 300000, 'boom') FROM numbers(1000000)")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if err := rows.Err(); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("exception after rows: %v, want one that says boom", err)
	}
}

func TestTwentyConcurrentQueries(t *testing.T) {
	conn := client(t, clickhouse.CompressionNone)
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			var got uint64
			want := uint64(100_000 + i)
			errs[i] = conn.QueryRow(t.Context(), "SELECT count() FROM numbers({n:UInt64})",
				clickhouse.Named("n", want)).Scan(&got)
			if errs[i] == nil && got != want {
				errs[i] = fmt.Errorf("query %d: %d, want %d", i, got, want)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}
