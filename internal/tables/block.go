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

// Block is an in-memory block of columns of the rows R: rows are added for an insert, or a query's results are
// decoded into it and read.
type Block[R any] struct {
	columns []*column
	rows    int
}

// column is one column with the functions that write and read a field of its type.
type column struct {
	name  string
	field []int
	data  proto.Column
	add   func(reflect.Value)
	get   func(int, reflect.Value)
}

// NewBlock returns an empty block of the named columns of R; without names, of all. It panics if R has no such
// column, or a field whose type fits no column: both are programming errors.
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

// Rows is the number of added rows.
func (b *Block[R]) Rows() int { return b.rows }

// Input returns the block for an insert.
func (b *Block[R]) Input() proto.Input {
	in := make(proto.Input, len(b.columns))
	for i, c := range b.columns {
		in[i] = proto.InputColumn{Name: c.name, Data: c.data}
	}
	return in
}

// Results returns the columns for a query that selects them by name, in the order of R's fields.
func (b *Block[R]) Results() proto.Results {
	out := make(proto.Results, len(b.columns))
	for i, c := range b.columns {
		out[i] = proto.ResultColumn{Name: c.name, Data: c.data}
	}
	return out
}

// Row copies row i of the last decoded block into row.
func (b *Block[R]) Row(i int, row *R) {
	v := reflect.ValueOf(row).Elem()
	for _, c := range b.columns {
		c.get(i, v.FieldByIndex(c.field))
	}
}

// pair writes and reads values of T without allocating.
func pair[T any](data proto.ColumnOf[T]) *column {
	return &column{
		data: data,
		add:  func(v reflect.Value) { data.Append(*v.Addr().Interface().(*T)) },
		get:  func(i int, v reflect.Value) { *v.Addr().Interface().(*T) = data.Row(i) },
	}
}

// fixed is a FixedString, in Go an array of bytes.
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

// newColumn returns the column of a field. While decoding, each string of a LowCardinality is stored once, however
// many rows have it.
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
	case float64:
		return pair[float64](new(proto.ColFloat64))
	case []string:
		return pair[[]string](new(proto.ColStr).Array())
	case []uint8:
		return pair[[]uint8](new(proto.ColUInt8).Array())
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

// dictionary decodes repeated strings; each is stored once.
type dictionary struct {
	proto.ColStr
	known map[string]string
}

func names() *proto.ColLowCardinality[string] {
	return proto.NewLowCardinality[string](&dictionary{known: map[string]string{}})
}

// Row is the i-th string of the current dictionary.
func (d *dictionary) Row(i int) string {
	text := d.RowBytes(i)
	if s, ok := d.known[string(text)]; ok {
		return s
	}
	s := string(text)
	d.known[s] = s
	return s
}

// Inserter inserts blocks.
type Inserter interface {
	Insert(ctx context.Context, table string, in proto.Input) error
}

// Insert writes rows into a table as one block. Without rows nothing is sent.
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
