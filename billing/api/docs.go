package api

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsTemplate string

// docsOperation is an operation as the page shows it.
type docsOperation struct {
	ID, Method, Path, Summary, Description string
	Parameters                             []docsParameter
	Answers                                []docsAnswer
}

type docsParameter struct {
	Name, In, Type, Description string
	Required                    bool
}

type docsAnswer struct{ Status, Type, Description string }

// renderDocs makes the page of the description; it loads nothing.
func renderDocs(doc *huma.OpenAPI) ([]byte, error) {
	page, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("read docs page: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, map[string]any{"Info": doc.Info, "Operations": docsOperations(doc)}); err != nil {
		return nil, fmt.Errorf("render docs page: %w", err)
	}
	return out.Bytes(), nil
}

func docsOperations(doc *huma.OpenAPI) []docsOperation {
	var all []docsOperation
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, op := range []*huma.Operation{doc.Paths[path].Get, doc.Paths[path].Post} {
			if op != nil {
				all = append(all, docsOperationOf(doc, op))
			}
		}
	}
	return all
}

func docsOperationOf(doc *huma.OpenAPI, op *huma.Operation) docsOperation {
	shown := docsOperation{ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description}
	for _, p := range op.Parameters {
		shown.Parameters = append(shown.Parameters, docsParameter{
			Name: p.Name, In: p.In, Type: typeOf(p.Schema), Description: p.Description, Required: p.Required,
		})
	}
	if op.RequestBody != nil && op.RequestBody.Content[jsonType] != nil {
		body := op.RequestBody.Content[jsonType].Schema
		if body.Ref != "" {
			body = doc.Components.Schemas.SchemaFromRef(body.Ref)
		}
		for _, name := range slices.Sorted(maps.Keys(body.Properties)) {
			shown.Parameters = append(shown.Parameters, docsParameter{
				Name: name, In: "body", Type: typeOf(body.Properties[name]),
				Description: body.Properties[name].Description, Required: slices.Contains(body.Required, name),
			})
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		answer := op.Responses[status]
		shown.Answers = append(shown.Answers, docsAnswer{
			Status: status, Type: strings.Join(slices.Sorted(maps.Keys(answer.Content)), ", "), Description: answer.Description,
		})
	}
	return shown
}

// typeOf is a schema in a few words.
func typeOf(s *huma.Schema) string {
	switch {
	case s == nil:
		return ""
	case len(s.Enum) > 0:
		words := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			words[i] = fmt.Sprint(value)
		}
		return strings.Join(words, " | ")
	case s.Type == huma.TypeArray:
		return "list of " + typeOf(s.Items)
	case s.Maximum != nil && s.Minimum != nil:
		return fmt.Sprintf("%s, %v to %v", s.Type, *s.Minimum, *s.Maximum)
	}
	return s.Type
}
