// Package config decodes YAML files strictly into Go structs that contain their defaults, and encodes them. It
// returns every error with file, line, key and value.
//
// A key is the `yaml` tag of a field, else its name in snake case. Unknown and repeated keys, values of another type,
// numbers without a required unit, second documents, anchors, aliases, and files beyond the limits of Document are
// errors. A Secret is never in the file itself: its key with the suffix "_file" or "_env" names where it is read
// from.
package config
