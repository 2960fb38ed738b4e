package focus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// ColumnDefinition describes a column (FOCUS 1.2, metadata, Column Definition). Precision, scale and length are the
// file's.
type ColumnDefinition struct {
	ColumnName          string   `json:"ColumnName"`
	DataType            string   `json:"DataType"`
	NumericPrecision    int      `json:"NumericPrecision,omitempty"`
	NumberScale         *int     `json:"NumberScale,omitempty"`
	StringMaxLength     int      `json:"StringMaxLength,omitempty"`
	StringEncoding      string   `json:"StringEncoding,omitempty"`
	ProviderTagPrefixes []string `json:"ProviderTagPrefixes,omitempty"`
}

func (w *writer) definitions() []ColumnDefinition {
	list := make([]ColumnDefinition, len(w.columns))
	for i, c := range w.columns {
		d, e := ColumnDefinition{ColumnName: c.name, DataType: c.kind}, w.stats[i]
		switch c.kind {
		case typeDecimal:
			d.NumericPrecision, d.NumberScale = e.whole+e.scale, &e.scale
		case typeString:
			d.StringMaxLength, d.StringEncoding = e.length, "UTF-8"
		}
		if c.name == "Tags" {
			d.ProviderTagPrefixes = []string{tagPrefix}
		}
		list[i] = d
	}
	return list
}

// metadata is FOCUS's Schema object.
type metadata struct {
	SchemaID         string             `json:"SchemaId"`
	FocusVersion     string             `json:"FocusVersion"`
	CreationDate     string             `json:"CreationDate"`
	DataGenerator    string             `json:"DataGenerator"`
	ColumnDefinition []ColumnDefinition `json:"ColumnDefinition"`
}

// WriteMetadata describes Write's output according to FOCUS's metadata: the schema's id follows from version and
// columns, so that equal schemas have one.
func WriteMetadata(w io.Writer, options Options, summary Summary, created time.Time) error {
	options, err := options.withDefaults()
	if err != nil {
		return fmt.Errorf("write FOCUS metadata: %w", err)
	}
	columns, err := json.Marshal(summary.Columns)
	if err != nil {
		return fmt.Errorf("write FOCUS metadata: %w", err)
	}
	hash := sha256.Sum256(append([]byte(options.Version), columns...))
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	err = encoder.Encode(metadata{
		SchemaID: "gputally-" + options.Version + "-" + hex.EncodeToString(hash[:8]), FocusVersion: options.Version,
		CreationDate: created.UTC().Format(time.RFC3339), DataGenerator: "gputally", ColumnDefinition: summary.Columns,
	})
	if err != nil {
		return fmt.Errorf("write FOCUS metadata: %w", err)
	}
	return nil
}
