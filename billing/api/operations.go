package api

import (
	"context"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gputally/gputally/billing/invoice"
)

// Tags group operations in the description.
const (
	tagUsage    = "usage"
	tagInvoices = "invoices"
	tagExports  = "exports"
	// tagDecisions are operations that make or list decisions.
	tagDecisions = "decisions"
)

const (
	jsonType = "application/json"
	csvType  = "text/csv"
)

// newConfig removes what would load scripts from elsewhere or add links to answers.
func newConfig() huma.Config {
	config := huma.DefaultConfig("gputally finance API", "1.0.0")
	config.Info.Description = "Money and quantities are decimal strings, never floats. " +
		"Hours are UTC; a period is a calendar month in the tenant's time zone. " +
		"Lists have pages: field next of an answer is the cursor of the next page. Every error is an RFC 9457 problem."
	config.Formats = map[string]huma.Format{jsonType: strictJSON(), "json": strictJSON()}
	config.DocsPath = ""
	config.SchemasPath = ""
	config.CreateHooks = nil
	// A field has one spelling: encoding/json would also accept "Tenant" for tenant, bypassing the schema's limits.
	// It is huma's setting for all its APIs.
	huma.ValidateStrictCasing = true
	return config
}

// route is an operation: its description, and its handler.
type route struct {
	method, id, path, tag, summary string
	serve                          func(h huma.API, op huma.Operation)
	// good describes the answer if it is not JSON of the handler's type.
	good func(h huma.API) *huma.Response
}

func get(path, id, tag string, serve func(huma.API, huma.Operation), summary string) route {
	return route{http.MethodGet, id, path, tag, summary, serve, nil}
}

func post(path, id, tag string, serve func(huma.API, huma.Operation), summary string) route {
	return route{http.MethodPost, id, path, tag, summary, serve, nil}
}

// answers returns the route with a description of its good answer.
func (r route) answers(good func(huma.API) *huma.Response) route {
	r.good = good
	return r
}

// by serves an operation with a handler, whose types define its parameters, body and answer.
func by[I, O any](handler func(context.Context, *I) (*O, error)) func(huma.API, huma.Operation) {
	return func(h huma.API, op huma.Operation) { huma.Register(h, op, handler) }
}

func (r *route) register(h huma.API) {
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: Prefix + r.path, Summary: r.summary, Tags: []string{r.tag},
		RejectUnknownQueryParameters: true, Errors: errorsOf(r.method, r.path),
	}
	if r.method == http.MethodPost {
		op.DefaultStatus = http.StatusCreated
		op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // the guard has read the body, within its limits
	}
	if r.good != nil {
		op.Responses = map[string]*huma.Response{"200": r.good(h)}
	}
	r.serve(h, op)
}

// ownBytes describes an answer with a document's own bytes.
func ownBytes(h huma.API) *huma.Response {
	schema := h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[invoice.Invoice](), true, "")
	return &huma.Response{
		Description: "The document; its ETag is the SHA-256 of its bytes, which the decision contains",
		Content:     map[string]*huma.MediaType{jsonType: {Schema: schema}},
	}
}

// aFile describes an answer with a CSV file.
func aFile(huma.API) *huma.Response {
	return &huma.Response{
		Description: "The file",
		Content:     map[string]*huma.MediaType{csvType: {Schema: &huma.Schema{Type: huma.TypeString}}},
		Headers:     map[string]*huma.Header{"Content-Disposition": textHeader("attachment, with the file's name")},
	}
}

// errorsOf returns the error statuses of an operation; describe adds their texts.
func errorsOf(method, path string) []int {
	statuses := []int{
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusConflict,
	}
	if strings.Contains(path, "{") {
		statuses = append(statuses, http.StatusNotFound)
	}
	if method == http.MethodPost {
		statuses = append(statuses, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
			http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
		if path != "/price-books" && path != "/anomalies/marks" {
			statuses = append(statuses, http.StatusPreconditionFailed)
		}
	}
	slices.Sort(statuses)
	return slices.Compact(statuses)
}

// check refuses ambiguous requests, and content types that the operation neither accepts nor returns.
func (a *api) check(h huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		op := ctx.Operation()
		produced := contentTypeOf(op)
		detail := ambiguous(ctx.URL().RawQuery)
		switch {
		case !accepts(headerOf(ctx, "Accept"), produced):
			_ = huma.WriteErr(h, ctx, http.StatusNotAcceptable, "this operation answers with "+produced) // disconnected
		case op.RequestBody != nil && !isJSON(ctx.Header("Content-Type")):
			_ = huma.WriteErr(h, ctx, http.StatusUnsupportedMediaType, "want the Content-Type "+jsonType) // as above
		case len(requestOf(ctx).Header.Values("Idempotency-Key")) > 1:
			_ = huma.WriteErr(h, ctx, http.StatusBadRequest, "the header Idempotency-Key is repeated") // as above
		case detail != nil:
			_ = huma.WriteErr(h, ctx, http.StatusUnprocessableEntity, "invalid parameter "+detail.Location, detail) // as above
		default:
			if op.RequestBody != nil {
				requestOf(ctx).Header.Set("Content-Type", jsonType) // as huma spells it
			}
			next(ctx)
		}
	}
}

func requestOf(ctx huma.Context) *http.Request {
	r, _ := humago.Unwrap(ctx)
	return r
}

// contentTypeOf is the content type of an operation's good answers.
func contentTypeOf(op *huma.Operation) string {
	for _, status := range []string{"200", "201"} {
		if answer := op.Responses[status]; answer != nil {
			for contentType := range answer.Content {
				return contentType
			}
		}
	}
	return jsonType
}

// headerOf joins a header's lines.
func headerOf(ctx huma.Context, name string) string {
	var lines []string
	ctx.EachHeader(func(header, value string) {
		if strings.EqualFold(header, name) {
			lines = append(lines, value)
		}
	})
	return strings.Join(lines, ",")
}

// accepts evaluates an Accept header (RFC 9110, section 12.5.1): the most specific range that covers a type decides,
// and q=0 refuses it.
func accepts(header, contentType string) bool {
	if strings.TrimSpace(header) == "" {
		return true
	}
	kind, _, _ := strings.Cut(contentType, "/")
	best, allowed := -1, false
	for _, entry := range strings.Split(header, ",") {
		name, parameters, err := mime.ParseMediaType(entry)
		if err != nil {
			continue
		}
		specific := slices.Index([]string{"*/*", kind + "/*", contentType}, name)
		if specific > best {
			best, allowed = specific, strings.Trim(parameters["q"], "0.") != "" || parameters["q"] == ""
		}
	}
	return allowed
}

func isJSON(contentType string) bool {
	name, parameters, err := mime.ParseMediaType(contentType)
	charset, given := parameters["charset"]
	return err == nil && name == jsonType && (!given || strings.EqualFold(charset, "utf-8"))
}

// ambiguous returns a parameter that is repeated, empty (neither a value nor left out), or not valid text.
func ambiguous(rawQuery string) *huma.ErrorDetail {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return &huma.ErrorDetail{
			Location: "query", Message: "is not a query string",
			Value: strings.ToValidUTF8(rawQuery, "�"),
		}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		location := "query." + strings.ToValidUTF8(name, "�")
		switch values := query[name]; {
		case len(values) > 1:
			return &huma.ErrorDetail{Location: location, Message: "named more than once", Value: values}
		case values[0] == "":
			return &huma.ErrorDetail{Location: location, Message: "is empty; give a value or leave it out", Value: ""}
		case !utf8.ValidString(values[0]) || strings.ContainsRune(values[0], 0):
			return &huma.ErrorDetail{
				Location: location, Message: "is not UTF-8 text",
				Value: strings.ToValidUTF8(values[0], "�"),
			}
		}
	}
	return nil
}
