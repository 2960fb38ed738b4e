package hostiletest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/decisions"
)

// AlterRecord changes random fields of a decision or of its body.
func (g *Generator) AlterRecord(r *decisions.Record) {
	g.room = 1 << 20
	for range 1 + g.random.IntN(3) {
		switch g.random.IntN(9) {
		case 0:
			r.Format = int(g.number())
		case 1:
			r.Kind = decisions.Kind(pick(g,
				[]string{
					"part", "price_book", "freeze", "invoice", "note", "approval", "mapping", "cluster", "audit", "policy",
					"", g.text(),
				}))
		case 2:
			r.ID = g.text()
		case 3:
			r.Key = g.text()
		case 4:
			r.Request = g.text()
		case 5:
			r.Who = g.text()
		case 6:
			r.At = time.UnixMilli(g.number() % 250_000_000_000_000).UTC()
		default:
			r.Body = g.alteredBody(r.Body)
		}
	}
}

// alteredBody changes a field of a body or replaces the body.
func (g *Generator) alteredBody(body json.RawMessage) json.RawMessage {
	if g.percent(10) {
		const deep = 20_000
		return json.RawMessage(pick(g, []string{
			"null", "[]", "1e999", `"x"`, "{}", strings.Repeat("[", deep) + strings.Repeat("]", deep),
			`{"a":` + strings.Repeat("9", deep) + "}",
			`{"action":"` + strings.Repeat(`\u003c`, deep) + `"}`, "[" + strings.Repeat("1,", 9*deep) + "1]",
		}))
	}
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil || len(fields) == 0 {
		return body
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	name := pick(g, names)
	switch g.random.IntN(5) {
	case 0:
		delete(fields, name)
	case 1:
		fields[name] = g.number()
	case 2:
		fields[name] = strings.ToValidUTF8(g.text(), "?")
	case 3:
		fields[name] = []any{fields[name], fields[pick(g, names)]}
	case 4:
		fields[pick(g, []string{name + "s", strings.ToUpper(name), "x"})] = fields[name]
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // all of it came from JSON
	}
	return text
}
