package tables

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

// Block is a block of columns of the rows R, in memory: rows are added to be
// inserted, or a query's results are decoded into it and read.
type Block[R any] struct {
	columns []*column
	rows    int
}

// column is one column and how a field of its type goes in and comes out.
type column struct {
	name  string
	field []int
	data  proto.Column
	add   func(reflect.Value)
	get   func(int, reflect.Value)
}

// NewBlock makes an empty block of the named columns of R, of all where none is
// named. It panics where R has no such column, or a field that is of no column's
// type: both are mistakes in the program.
func NewBlock[R any](names ...string) *Block[R] {
	b := &Block[R]{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[R]()) {
		name, ok := f.Tag.Lookup("ch")
		if !ok || len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		c := newColumn(f)
		c.name, c.field = name, f.Index
		b.columns = append(b.columns, c)
	}
	if len(names) > 0 && len(b.columns) != len(names) {
		panic(fmt.Sprintf("tables: %v has %d of the columns %v", reflect.TypeFor[R](), len(b.columns), names))
	}
	return b
}

// Add appends a row.
func (b *Block[R]) Add(row *R) {
	v := reflect.ValueOf(row).Elem()
	for _, c := range b.columns {
		c.add(v.FieldByIndex(c.field))
	}
	b.rows++
}

// Rows is how many rows were added.
func (b *Block[R]) Rows() int { return b.rows }

// Input is the block for an insert.
func (b *Block[R]) Input() proto.Input {
	in := make(proto.Input, len(b.columns))
	for i, c := range b.columns {
		in[i] = proto.InputColumn{Name: c.name, Data: c.data}
	}
	return in
}

// Results are the columns for a query that selects them by their names, in the
// order of R's fields.
func (b *Block[R]) Results() proto.Results {
	out := make(proto.Results, len(b.columns))
	for i, c := range b.columns {
		out[i] = proto.ResultColumn{Name: c.name, Data: c.data}
	}
	return out
}

// Row reads row i of the block that was decoded last into row.
func (b *Block[R]) Row(i int, row *R) {
	v := reflect.ValueOf(row).Elem()
	for _, c := range b.columns {
		c.get(i, v.FieldByIndex(c.field))
	}
}

// pair puts values of T into a column and takes them out, without a copy on the heap.
func pair[T any](data proto.ColumnOf[T]) *column {
	return &column{
		data: data,
		add:  func(v reflect.Value) { data.Append(*v.Addr().Interface().(*T)) },
		get:  func(i int, v reflect.Value) { *v.Addr().Interface().(*T) = data.Row(i) },
	}
}

// fixed is a FixedString, an array of bytes in Go.
func fixed(size int) *column {
	data := &proto.ColFixedStr{Size: size}
	return &column{
		data: data,
		add:  func(v reflect.Value) { data.Append(v.Slice(0, size).Bytes()) },
		get:  func(i int, v reflect.Value) { copy(v.Slice(0, size).Bytes(), data.Row(i)) },
	}
}

// moment is a DateTime or DateTime64, in UTC.
func moment(data proto.ColumnOf[time.Time]) *column {
	c := pair(data)
	c.get = func(i int, v reflect.Value) { *v.Addr().Interface().(*time.Time) = data.Row(i).UTC() }
	return c
}

// newColumn is the column of a field. A LowCardinality's strings are kept once
// each while it decodes, whatever number of rows name them.
func newColumn(f reflect.StructField) *column {
	sql := f.Tag.Get("sql")
	switch {
	case f.Type == reflect.TypeFor[time.Time]() && strings.HasPrefix(sql, "DateTime64"):
		return moment(new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli))
	case f.Type == reflect.TypeFor[time.Time]() && strings.HasPrefix(sql, "DateTime"):
		return moment(new(proto.ColDateTime))
	case f.Type == reflect.TypeFor[time.Time]() && strings.HasPrefix(sql, "Date"):
		return moment(new(proto.ColDate))
	case f.Type.Kind() == reflect.Array && strings.HasPrefix(sql, "FixedString("+strconv.Itoa(f.Type.Len())+")"):
		return fixed(f.Type.Len())
	case strings.HasPrefix(sql, "LowCardinality(String)") && f.Type.Kind() == reflect.String:
		return pair[string](names())
	case strings.HasPrefix(sql, "Array(LowCardinality(String))"):
		return pair[[]string](names().Array())
	}
	switch reflect.Zero(f.Type).Interface().(type) {
	case string:
		return pair[string](new(proto.ColStr))
	case uint8:
		return pair[uint8](new(proto.ColUInt8))
	case int8:
		return pair[int8](new(proto.ColInt8))
	case uint16:
		return pair[uint16](new(proto.ColUInt16))
	case uint32:
		return pair[uint32](new(proto.ColUInt32))
	case uint64:
		return pair[uint64](new(proto.ColUInt64))
	case int32:
		return pair[int32](new(proto.ColInt32))
	case int64:
		return pair[int64](new(proto.ColInt64))
	case []string:
		return pair[[]string](new(proto.ColStr).Array())
	case []uint16:
		return pair[[]uint16](new(proto.ColUInt16).Array())
	case []uint32:
		return pair[[]uint32](new(proto.ColUInt32).Array())
	case []uint64:
		return pair[[]uint64](new(proto.ColUInt64).Array())
	case []int64:
		return pair[[]int64](new(proto.ColInt64).Array())
	}
	panic(fmt.Sprintf("tables: field %s: no column of type %s for a %v", f.Name, sql, f.Type))
}

// dictionary decodes strings that come again and again: each is kept once.
type dictionary struct {
	proto.ColStr
	known map[string]string
}

func names() *proto.ColLowCardinality[string] {
	return proto.NewLowCardinality[string](&dictionary{known: map[string]string{}})
}

// Row is the i-th string of the dictionary under way.
func (d *dictionary) Row(i int) string {
	text := d.RowBytes(i)
	if s, ok := d.known[string(text)]; ok {
		return s
	}
	s := string(text)
	d.known[s] = s
	return s
}

// Inserter is what inserting needs of a store.
type Inserter interface {
	Insert(ctx context.Context, table string, in proto.Input) error
}

// Insert writes rows into a table as one block. No rows: nothing is sent.
func Insert[R any](ctx context.Context, db Inserter, table string, rows ...R) error {
	if len(rows) == 0 {
		return nil
	}
	b := NewBlock[R]()
	for i := range rows {
		b.Add(&rows[i])
	}
	return db.Insert(ctx, table, b.Input())
}
