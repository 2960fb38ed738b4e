package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// Limits of a YAML file: more than any site's tenants or prices need, and small enough that reading takes less than a
// second and 100 MB.
const (
	// MaxBytes bounds a file's length, as for a price book in the decisions log.
	MaxBytes = 1 << 20
	// maxNodes bounds scalars, lists and mappings; maxDepth their nesting; maxKey a key's length in bytes.
	maxNodes, maxDepth, maxKey = 100_000, 32, 1 << 10
	// maxMarks bounds the characters , : - ? [ { of which every node needs one, and so the memory of the parser
	// before nodes can be counted.
	maxMarks = 2 * maxNodes
)

// ReadFile reads a file of at most MaxBytes; a longer one is an error and is not read to its end.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: is longer than %d bytes", path, MaxBytes)
	}
	return data, nil
}

// Document returns the root of the only YAML document in data; nil: data is empty. All YAML is read by it: it refuses
// anchors, aliases and merge keys, which expand a short text to a long one, with their line, and anything beyond the
// limits above. name is the file's name in errors. It doesn't check for repeated keys.
func Document(name string, data []byte) (*yaml.Node, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: is longer than %d bytes", name, MaxBytes)
	}
	marks := 0
	for _, c := range data {
		switch c {
		case ',', ':', '-', '?', '[', '{':
			marks++
		}
	}
	if marks > maxMarks {
		return nil, fmt.Errorf("%s: has %d of the characters , : - ? [ {, want at most %d", name, marks, maxMarks)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	if err := dec.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s:%d: a second document, want one", name, second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	root, nodes := doc.Content[0], 0
	if isNull(root) {
		root = nil
	}
	return root, plain(name, doc.Content[0], &nodes, 1)
}

// plain checks a node and all below it.
func plain(name string, n *yaml.Node, nodes *int, depth int) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", name, n.Line, fmt.Sprintf(format, args...))
	}
	*nodes++
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fault("anchors and aliases are not supported, write the value out")
	case *nodes > maxNodes:
		return fault("more than %d values", maxNodes)
	case depth > maxDepth:
		return fault("lists and mappings are nested more than %d deep", maxDepth)
	}
	for i, inner := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch {
			case inner.Tag == "!!merge":
				return fmt.Errorf("%s:%d: merge keys are not supported, write the values out", name, inner.Line)
			case len(inner.Value) > maxKey:
				return fmt.Errorf("%s:%d: a key of %d bytes, want at most %d", name, inner.Line, len(inner.Value), maxKey)
			}
		}
		if err := plain(name, inner, nodes, depth+1); err != nil {
			return err
		}
	}
	return nil
}
