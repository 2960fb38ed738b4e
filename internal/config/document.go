package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// What a YAML file may have: more than any site's tenants or prices, and so
// little that reading it takes less than a second and 100 MB.
const (
	// MaxBytes is a file's length, that of a price book among the decisions.
	MaxBytes = 1 << 20
	// maxNodes are scalars, lists and mappings; maxDepth is how many of them lie
	// in each other, and maxKey a key's length in bytes.
	maxNodes, maxDepth, maxKey = 100_000, 32, 1 << 10
	// maxMarks are the characters , : - ? [ { of which a node needs one: they
	// bound what the parser makes before nodes can be counted.
	maxMarks = 2 * maxNodes
)

// ReadFile reads a file of at most MaxBytes; of a longer one it reads no more.
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

// Document returns the root of the one YAML document in data, nil where there
// is none. It is how all YAML of ours is read: anchors, aliases and merge keys,
// which make a short text a long one, are refused with their line, and so is
// what is beyond the bounds above. name is what errors call the file. Keys that
// are repeated are left to the reader of the nodes.
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

// plain refuses what Document does not take, at a node and below it.
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
		return fault("more than %d lists and mappings in each other", maxDepth)
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
