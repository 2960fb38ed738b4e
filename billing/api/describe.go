package api

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// describe adds the guard's answers to the description, so that every answer is documented.
func describe(doc *huma.OpenAPI) {
	for _, op := range operationsOf(doc) {
		describeOperation(op)
	}
}

// operationsOf are all operations, by path.
func operationsOf(doc *huma.OpenAPI) (all []*huma.Operation) {
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, op := range []*huma.Operation{doc.Paths[path].Get, doc.Paths[path].Post} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	return all
}

// linked lists for an answer, by the pointer to a value in it, the parameter and the operations that accept the
// value.
var linked = map[string]struct {
	pointer, parameter string
	operations         []string
}{
	"list-invoices": {
		"/invoices/0/number", "number",
		[]string{"show-invoice", "list-lines", "list-notes", "verify-invoice"},
	},
	"list-notes":       {"/invoices/0/number", "number", []string{"show-invoice", "verify-invoice"}},
	"finalise-invoice": {"/number", "number", []string{"show-invoice", "list-lines", "verify-invoice"}},
	"correct-invoice":  {"/number", "number", []string{"show-invoice", "verify-invoice"}},
	"list-price-books": {"/price_books/0/sha256", "sha256", []string{"show-price-book"}},
}

// bodies are examples of bodies whose fields exclude each other, by operation.
var bodies = map[string]any{
	"mark-anomalies": map[string]any{
		"action": "mute", "kind": "idle_allocation", "tenant": "ml-train", "reason": "driver rollout",
		"until": "2027-01-31T00:00:00Z", "who": "ops@example.com",
	},
}

func link(op *huma.Operation) {
	to, ok := linked[op.OperationID]
	if !ok {
		return
	}
	for _, status := range []string{"200", "201"} {
		if answer := op.Responses[status]; answer != nil {
			answer.Links = map[string]*huma.Link{}
			for _, id := range to.operations {
				value := map[string]any{to.parameter: "$response.body#" + to.pointer}
				answer.Links[id] = &huma.Link{OperationID: id, Parameters: value}
			}
		}
	}
}

// statuses.tsv explains when an operation answers with an error status, with an example.
//
//go:embed statuses.tsv
var statusesTSV string

// explained are the rows of statuses.tsv, by status.
var explained = func() map[string]struct{ when, example string } {
	all := map[string]struct{ when, example string }{}
	for row := range strings.Lines(statusesTSV) {
		cells := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		all[cells[0]] = struct{ when, example string }{cells[1], cells[2]}
	}
	return all
}()

func describeOperation(op *huma.Operation) {
	for status, answer := range op.Responses {
		more, ok := explained[status]
		if !ok {
			continue
		}
		code, _ := strconv.Atoi(status)
		answer.Description = more.when
		answer.Headers = headersOf(code)
		for _, content := range answer.Content {
			content.Example = map[string]any{"title": http.StatusText(code), "status": code, "detail": more.example}
		}
	}
	if op.Method == http.MethodPost {
		made := op.Responses["201"]
		made.Description = "Decided by this request."
		op.Responses["200"] = &huma.Response{
			Description: "Decided earlier: with the same Idempotency-Key if the header Idempotency-Replayed is true, " +
				"otherwise with another one.",
			Content: made.Content, Headers: made.Headers,
		}
	}
	link(op)
	if body, ok := bodies[op.OperationID]; ok {
		op.RequestBody.Content[jsonType].Example = body
	}
	good := op.Responses["200"]
	if op.Method != http.MethodGet || good == nil || good.Content[jsonType] == nil {
		return
	}
	if good.Headers == nil {
		good.Headers = map[string]*huma.Header{}
	}
	good.Headers["ETag"] = textHeader("Strong: the SHA-256 of the body; of a draft, its content_sha256. " +
		"With it in If-None-Match, an unchanged answer isn't sent again")
	op.Responses["304"] = &huma.Response{
		Description: "The answer hasn't changed since the one named in If-None-Match; it isn't sent.",
		Headers:     map[string]*huma.Header{"ETag": textHeader("The ETag of the answer, as before")},
	}
}

func headersOf(code int) map[string]*huma.Header {
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return map[string]*huma.Header{"Retry-After": {
			Description: "Seconds after which to retry", Schema: &huma.Schema{Type: huma.TypeInteger},
		}}
	case http.StatusMethodNotAllowed:
		return map[string]*huma.Header{"Allow": textHeader("Methods of the path")}
	}
	return nil
}

func textHeader(description string) *huma.Header {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
}

//go:embed docs.html
var docsTemplate string

// renderDocs renders the page of the description, which loads nothing from elsewhere.
func renderDocs(doc *huma.OpenAPI) ([]byte, error) {
	page, err := template.New("docs").Funcs(template.FuncMap{
		"operations": func() []*huma.Operation { return operationsOf(doc) },
		"parameters": func(op *huma.Operation) []*huma.Param { return parametersOf(doc, op) },
		"typeOf":     typeOf,
		"contentTypes": func(content map[string]*huma.MediaType) string {
			return strings.Join(slices.Sorted(maps.Keys(content)), ", ")
		},
	}).Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("read docs page: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, doc.Info); err != nil {
		return nil, fmt.Errorf("render docs page: %w", err)
	}
	return out.Bytes(), nil
}

// parametersOf are an operation's parameters and its body's fields.
func parametersOf(doc *huma.OpenAPI, op *huma.Operation) []*huma.Param {
	all := slices.Clone(op.Parameters)
	if op.RequestBody == nil || op.RequestBody.Content[jsonType] == nil {
		return all
	}
	body := op.RequestBody.Content[jsonType].Schema
	if body.Ref != "" {
		body = doc.Components.Schemas.SchemaFromRef(body.Ref)
	}
	for _, name := range slices.Sorted(maps.Keys(body.Properties)) {
		of := body.Properties[name]
		all = append(all, &huma.Param{
			Name: name, In: "body", Schema: of, Description: of.Description, Required: slices.Contains(body.Required, name),
		})
	}
	return all
}

// typeOf describes a schema briefly.
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
