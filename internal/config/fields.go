package config

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

type field struct {
	key      string
	index    []int
	typ      reflect.Type
	required bool
}

// fieldsOf returns a struct's configurable fields by key.
func fieldsOf(t reflect.Type) map[string]field {
	byKey := map[string]field{}
	for _, f := range orderedFields(t) {
		byKey[f.key] = f
	}
	return byKey
}

// orderedFields returns a struct's configurable fields in the order of their declaration.
func orderedFields(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if !sf.IsExported() || name == "-" {
			continue
		}
		inline := options == "inline" || (sf.Anonymous && name == "")
		if inline && sf.Type.Kind() == reflect.Struct {
			for _, inner := range orderedFields(sf.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		}
		if name == "" {
			name = snake(sf.Name)
		}
		fields = append(fields, field{key: name, index: []int{i}, typ: sf.Type, required: options == "required"})
	}
	return fields
}

// snake converts a Go name to snake case: MaxLate is max_late, GPUHour gpu_hour, URLs urls.
func snake(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && startsWord(runes, i) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func startsWord(runes []rune, i int) bool {
	if !unicode.IsUpper(runes[i-1]) {
		return true
	}
	plural := i+2 == len(runes) && runes[i+1] == 's'
	return i+1 < len(runes) && unicode.IsLower(runes[i+1]) && !plural
}

// secretField returns the Secret that a key such as password_file sets, and whether the key's value is a "file" or an
// "env".
func secretField(fields map[string]field, key string) (f field, source string, ok bool) {
	for _, source := range []string{"file", "env"} {
		base, found := strings.CutSuffix(key, "_"+source)
		if f, known := fields[base]; found && known && f.typ == secretType {
			return f, source, true
		}
	}
	return field{}, "", false
}

// suggest returns a hint with the most similar key, or with all keys if there are few.
func suggest(got string, fields map[string]field) string {
	var keys []string
	best, distance := "", 3
	for key, f := range fields {
		if f.typ == secretType {
			key += "_file"
		}
		keys = append(keys, key)
		if d := editDistance(got, key); d < distance || (d == distance && best != "" && key < best) {
			best, distance = key, d
		}
	}
	slices.Sort(keys)
	switch {
	case best != "":
		return `, did you mean "` + best + `"?`
	case len(keys) > 0 && len(keys) <= 12:
		return "; known here: " + strings.Join(keys, ", ")
	}
	return ""
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
