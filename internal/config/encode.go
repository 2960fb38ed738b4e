package config

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Encode writes the struct v as the YAML file from which Decode would read it, keys in the order of the fields. Of a
// Secret it writes only the file or variable it was read from.
func Encode(w io.Writer, v any) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(encodeValue(reflect.Indirect(reflect.ValueOf(v)))); err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	if err := enc.Close(); err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	return nil
}

func encodeValue(v reflect.Value) *yaml.Node {
	if v.Type() == durationType {
		return scalarNode("!!str", FormatDuration(time.Duration(v.Int())))
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok && !(v.Kind() == reflect.Pointer && v.IsNil()) {
		if text, err := m.MarshalText(); err == nil {
			return scalarNode("!!str", string(text))
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		return encodeStruct(v)
	case reflect.Map:
		return encodeMap(v)
	case reflect.Slice:
		list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.Len() {
			list.Content = append(list.Content, encodeValue(v.Index(i)))
		}
		return list
	case reflect.Pointer:
		if v.IsNil() {
			return scalarNode("!!null", "null")
		}
		return encodeValue(v.Elem())
	default:
		return encodeScalar(v)
	}
}

func encodeScalar(v reflect.Value) *yaml.Node {
	switch v.Kind() {
	case reflect.Bool:
		return scalarNode("!!bool", strconv.FormatBool(v.Bool()))
	case reflect.Float32, reflect.Float64:
		return scalarNode("", strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits()))
	case reflect.String:
		return scalarNode("!!str", v.String())
	default:
		return scalarNode("!!int", fmt.Sprint(v.Interface()))
	}
}

func encodeStruct(v reflect.Value) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, f := range orderedFields(v.Type()) {
		key, item := f.key, v.FieldByIndex(f.index)
		if secret, ok := item.Interface().(Secret); ok {
			if secret.source != "" {
				m.Content = append(m.Content, scalarNode("!!str", key+"_"+secret.source), scalarNode("!!str", secret.from))
			}
			continue
		}
		m.Content = append(m.Content, scalarNode("!!str", key), encodeValue(item))
	}
	return m
}

func encodeMap(v reflect.Value) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		return strings.Compare(encodeValue(a).Value, encodeValue(b).Value)
	})
	for _, k := range keys {
		m.Content = append(m.Content, encodeValue(k), encodeValue(v.MapIndex(k)))
	}
	return m
}

func scalarNode(tag, value string) *yaml.Node {
	n := &yaml.Node{}
	if tag == "!!str" {
		n.SetString(value) // quotes text that would be read as another type
		return n
	}
	n.Kind, n.Tag, n.Value = yaml.ScalarNode, tag, value
	return n
}

// FormatDuration is d without the zero units of its String: "72h", not "72h0m0s".
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
