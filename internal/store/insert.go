package store

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/ClickHouse/ch-go/proto"
)

const nativeFormat = "Native"

// pooledBufferBytes is the largest buffer that is reused.
const pooledBufferBytes = 64 << 20

var buffers = sync.Pool{New: func() any { return new(proto.Buffer) }}

// Insert writes one block of columns of equal length into table (an identifier), matched by the columns' names in any
// order; missing columns take their defaults. ClickHouse casts the types, so an Enum8 may be sent as Int8 (its
// number) or as String (its name). Insert returns nil when the rows are written and will survive a crash. A block of
// which a row violates a CHECK is refused as a whole. Send at most about 500,000 rows, of one partition: larger
// blocks are not written atomically. Without rows nothing is sent.
func (db *DB) Insert(ctx context.Context, table string, in proto.Input) error {
	if len(in) == 0 {
		return fmt.Errorf("insert into %s: no columns", table)
	}
	rows := in[0].Data.Rows()
	if rows == 0 {
		return nil
	}
	sql, err := insertStatement(table, in)
	if err != nil {
		return err
	}
	buf := buffers.Get().(*proto.Buffer)
	defer recycle(buf)
	buf.Reset()
	block := proto.Block{Columns: len(in), Rows: rows}
	// Revision 0: data sent over HTTP has no protocol version.
	if err := block.EncodeRawBlock(buf, 0, in); err != nil {
		return fmt.Errorf("insert into %s: encode block of %d rows: %w", table, rows, err)
	}
	return wrap("insert into "+table, db.conn.InsertFormat(ctx, nativeFormat, sql, bytes.NewReader(buf.Buf)))
}

func recycle(buf *proto.Buffer) {
	if cap(buf.Buf) <= pooledBufferBytes {
		buffers.Put(buf)
	}
}

// insertStatement builds the INSERT; identifiers are validated, not escaped.
func insertStatement(table string, in proto.Input) (string, error) {
	if !identifier.MatchString(table) {
		return "", fmt.Errorf("insert into %q: not the name of a table", table)
	}
	var sql strings.Builder
	sql.WriteString("INSERT INTO ")
	sql.WriteString(table)
	sql.WriteString(" (")
	for i, column := range in {
		if !identifier.MatchString(column.Name) {
			return "", fmt.Errorf("insert into %s: %q is not the name of a column", table, column.Name)
		}
		if i > 0 {
			sql.WriteString(", ")
		}
		sql.WriteString("`" + column.Name + "`")
	}
	sql.WriteString(")")
	return sql.String(), nil
}
