package check

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gputally/gputally/internal/usage"
)

// WriteTable prints one line per check, "C6  ok    title  figures", and below a failed check its findings, indented.
// The verdicts are ok, FAIL, and n/a for not proven. Decimals with more than six places are shortened to two.
func WriteTable(w io.Writer, results []Result) error {
	var b strings.Builder
	name, title := columnWidths(results)
	for _, r := range results {
		fmt.Fprintf(&b, "%-*s  %-4s  %-*s  %s\n", name, r.Name, verdict(&r), title, r.Title, shorten(r.Figures))
		for _, finding := range r.Findings {
			fmt.Fprintf(&b, "%*s  - %s\n", name, "", finding)
		}
		if more := r.Violations - int64(len(r.Findings)); more > 0 {
			fmt.Fprintf(&b, "%*s  - and %d more\n", name, "", more)
		}
		for _, note := range r.Notes {
			fmt.Fprintf(&b, "%*s  finding: %s\n", name, "", note)
		}
		if more := r.Noted - int64(len(r.Notes)); more > 0 {
			fmt.Fprintf(&b, "%*s  and %d findings more\n", name, "", more)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write checks: %w", err)
	}
	return nil
}

// longDecimal matches a decimal with more than six places.
var longDecimal = regexp.MustCompile(`-?\d+\.\d{7,}`)

func shorten(figures string) string {
	return longDecimal.ReplaceAllStringFunc(figures, func(number string) string {
		exact, ok := new(big.Rat).SetString(number)
		if !ok {
			return number
		}
		if short := exact.FloatString(2); short != "-0.00" {
			return short
		}
		return "0.00"
	})
}

func columnWidths(results []Result) (name, title int) {
	for _, r := range results {
		name, title = max(name, len(r.Name)), max(title, len(r.Title))
	}
	return name, title
}

func verdict(r *Result) string {
	switch {
	case r.OK:
		return "ok"
	case r.NotProven:
		return "n/a"
	}
	return "FAIL"
}

// WriteJSON prints {"ok": …, "checks": [Result, …]} and a newline; ok means that no check failed.
func WriteJSON(w io.Writer, results []Result) error {
	if results == nil {
		results = []Result{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	report := struct {
		OK     bool     `json:"ok"`
		Checks []Result `json:"checks"`
	}{NoneFailed(results), results}
	if err := enc.Encode(report); err != nil {
		return fmt.Errorf("write checks: %w", err)
	}
	return nil
}

// WriteCSV prints a header and one row per check:
// name,title,ok,checked,violations,figures,findings; ok is true, false or n/a,
// findings and notes are joined by "; ".
func WriteCSV(w io.Writer, results []Result) error {
	rows := [][]string{{"name", "title", "ok", "checked", "violations", "figures", "findings"}}
	for _, r := range results {
		ok := strconv.FormatBool(r.OK)
		if r.NotProven {
			ok = verdict(&r)
		}
		rows = append(rows, []string{
			usage.TextCell(r.Name), usage.TextCell(r.Title), ok, strconv.FormatInt(r.Checked, 10),
			strconv.FormatInt(r.Violations, 10), usage.TextCell(r.Figures),
			usage.TextCell(strings.Join(slices.Concat(r.Findings, r.Notes), "; ")),
		})
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write checks: %w", err)
	}
	return nil
}
