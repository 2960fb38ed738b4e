package prices

import _ "embed"

//go:embed default.yaml
var defaultYAML []byte

// Default is the book that is used if none is configured, for demonstrations: USD, public on-demand rates of 2026 in
// round figures, in force since 2020.
func Default() *Book {
	book, err := Parse("the default price book", defaultYAML)
	if err != nil {
		panic(err) // the embedded file is part of the program, and tested
	}
	return book
}
