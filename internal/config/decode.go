package config

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[Secret]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// value decodes one node into v, which is addressable.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	read, own := d.readers[v.Type()]
	switch {
	case own:
		if err := read(n, v.Addr().Interface()); err != nil {
			d.fault(n, path, "%v", err)
		}
	case v.Type() == secretType:
		d.fault(n, path, "a secret is read only from a file or the environment: use %s_file or %s_env", path, path)
	case v.Type() == durationType:
		d.duration(n, path, v)
	case v.Addr().Type().Implements(textType):
		d.text(n, path, v)
	default:
		d.kind(n, path, v)
	}
}

func (d *decoder) kind(n *yaml.Node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, path, v)
	case reflect.Map:
		d.mapping(n, path, v)
	case reflect.Slice:
		d.list(n, path, v)
	case reflect.Pointer:
		if isNull(n) {
			v.SetZero()
			return
		}
		fresh := reflect.New(v.Type().Elem())
		d.value(n, path, fresh.Elem())
		v.Set(fresh)
	default:
		d.scalar(n, path, v)
	}
}

func (d *decoder) structure(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.MappingNode && !isNull(n) { // null: every key below it is commented out
		d.fault(n, path, "want a mapping of keys, got %s", Describe(n))
		return
	}
	fields, missing := fieldsOf(v.Type()), map[string]bool{}
	for key, f := range fields {
		missing[key] = f.required
	}
	d.pairs(n, path, func(key, value *yaml.Node, at string) {
		delete(missing, key.Value)
		if f, ok := fields[key.Value]; ok {
			d.value(value, at, v.FieldByIndex(f.index))
			return
		}
		if f, source, ok := secretField(fields, key.Value); ok {
			d.secret(value, at, source, v.FieldByIndex(f.index))
			return
		}
		if d.failed() >= maxFaults {
			d.more++ // suggesting a key takes time
			return
		}
		d.fault(key, at, "unknown key%s", suggest(key.Value, fields))
	})
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		if missing[key] {
			d.fault(n, Join(path, key), "key is missing")
		}
	}
}

// pairs calls each for every key of a mapping, and reports repeated keys.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node, at string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := Join(path, key.Value)
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			d.fault(key, path, "want a plain key, got %s", Describe(key))
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.fault(key, at, "the key is already on line %d", line)
			continue
		}
		seen[key.Value] = key.Line
		each(key, value, at)
	}
}

func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "want a mapping of keys, got %s", Describe(n))
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	d.pairs(n, path, func(key, value *yaml.Node, at string) {
		k, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if k.Kind() == reflect.String {
			k.SetString(key.Value)
		} else {
			d.value(key, at, k)
		}
		d.value(value, at, item)
		v.SetMapIndex(k, item)
	})
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.fault(n, path, "want a list, got %s", Describe(n))
		return
	}
	// A new slice, because a list in the file replaces the default list.
	items := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(item, fmt.Sprintf("%s[%d]", path, i), items.Index(i))
	}
	v.Set(items)
}

func (d *decoder) duration(n *yaml.Node, path string, v reflect.Value) {
	got, err := ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || err != nil {
		d.fault(n, path, `want a duration with its unit, such as "10s", "72h" or "35d", got %s`, Describe(n))
		return
	}
	v.SetInt(int64(got))
}

// ParseDuration is time.ParseDuration with whole days: "35d".
func ParseDuration(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	count, err := strconv.ParseInt(days, 10, 32)
	if err != nil || math.Abs(float64(count)) > math.MaxInt64/float64(24*time.Hour) {
		return 0, fmt.Errorf("parse duration %q: want whole days", s)
	}
	return time.Duration(count) * 24 * time.Hour, nil
}

func (d *decoder) text(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		d.fault(n, path, "want a value, got %s", Describe(n))
		return
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.Value)); err != nil {
		d.fault(n, path, "want a %s, got %s: %v", v.Type(), Describe(n), err)
	}
}

func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value) {
	want, ok := "a string", n.Tag == "!!str"
	switch v.Kind() {
	case reflect.String:
		if ok {
			v.SetString(n.Value)
		} else if n.Kind == yaml.ScalarNode && !isNull(n) {
			want = fmt.Sprintf("a string in quotes (%q)", shorten(n.Value))
		}
	case reflect.Bool:
		want, ok = "true or false", n.Tag == "!!bool"
		v.SetBool(ok && strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		got, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
		want, ok = fmt.Sprintf("a whole number of %d bits", v.Type().Bits()), n.Tag == "!!int" && err == nil
		v.SetInt(got)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		got, err := strconv.ParseUint(n.Value, 10, v.Type().Bits())
		want, ok = fmt.Sprintf("a whole number from 0 on, of %d bits", v.Type().Bits()), n.Tag == "!!int" && err == nil
		v.SetUint(got)
	case reflect.Float32, reflect.Float64:
		got, err := strconv.ParseFloat(n.Value, v.Type().Bits())
		isNumber := n.Tag == "!!float" || n.Tag == "!!int"
		want, ok = "a number", isNumber && err == nil && !math.IsInf(got, 0) && !math.IsNaN(got)
		v.SetFloat(got)
	default:
		want, ok = "no value: a "+v.Type().String()+" cannot be configured", false
	}
	if !ok {
		d.fault(n, path, "want %s, got %s", want, Describe(n))
	}
}
