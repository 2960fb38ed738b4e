package store

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

// InsertRows writes structs as one block, as Insert does: each field's `ch` tag
// names its column, as for Select. Fields are strings, integers, and time.Time,
// which is sent in milliseconds. For tables of few rows: Insert is faster.
func InsertRows[R any](ctx context.Context, db *DB, table string, rows []R) error {
	layout := reflect.TypeFor[R]()
	input := make(proto.Input, layout.NumField())
	for i := range input {
		values := make([]reflect.Value, len(rows))
		for n := range rows {
			values[n] = reflect.ValueOf(&rows[n]).Elem().Field(i)
		}
		field := layout.Field(i)
		data := columnOf(field.Type, values)
		if data == nil {
			return fmt.Errorf("insert into %s: field %s is a %s, which has no column", table, field.Name, field.Type)
		}
		input[i] = proto.InputColumn{Name: field.Tag.Get("ch"), Data: data}
	}
	return db.Insert(ctx, table, input)
}

// columnOf makes the column of a type; nil: it has none.
func columnOf(of reflect.Type, values []reflect.Value) proto.ColInput {
	if of == reflect.TypeFor[time.Time]() {
		millis := new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli)
		return filled(millis, values, func(v reflect.Value) time.Time { return v.Interface().(time.Time) })
	}
	switch of.Kind() {
	case reflect.String:
		return filled(new(proto.ColStr), values, reflect.Value.String)
	case reflect.Uint8:
		return filled(new(proto.ColUInt8), values, func(v reflect.Value) uint8 { return uint8(v.Uint()) })
	case reflect.Uint32:
		return filled(new(proto.ColUInt32), values, func(v reflect.Value) uint32 { return uint32(v.Uint()) })
	case reflect.Uint64:
		return filled(new(proto.ColUInt64), values, reflect.Value.Uint)
	case reflect.Int64:
		return filled(new(proto.ColInt64), values, reflect.Value.Int)
	}
	return nil
}

func filled[T any, C interface {
	proto.ColInput
	Append(T)
}](column C, values []reflect.Value, get func(reflect.Value) T) proto.ColInput {
	for _, v := range values {
		column.Append(get(v))
	}
	return column
}
