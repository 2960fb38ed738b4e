// Package config reads YAML files strictly into Go structs that already hold
// their defaults, and writes them back: a file goes in; a filled struct, or
// every fault with file, line, key and value, comes out.
//
// Keys are the `yaml` tag of a field, else its name in snake case. Unknown and
// repeated keys, values of another type, numbers without the unit they need and
// second documents are refused, and so are anchors, aliases and files beyond the
// bounds of Document, by which all YAML is read. A Secret never comes from the
// file itself: its key with "_file" or "_env" added says where it is read from.
package config
