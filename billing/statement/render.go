package statement

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/shopspring/decimal"

	"github.com/gputally/gputally/internal/plural"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed style.css
var styleSheet string

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"hours": gpuHours, "instant": instant, "money": money, "named": named, "percent": percent, "visible": visible,
	"heldBar": func(h hours, greatest decimal.Decimal) []part { return rowBar(heldBuckets, h, greatest) },
	"idleBar": func(h hours, greatest decimal.Decimal) []part { return rowBar(allBuckets[1:2], h, greatest) },
	"plural":  plural.Of[int],
	"zone":    zoneTitle, "tenantPath": tenantPath, "platformBuckets": func() []bucket { return platformBuckets },
}).ParseFS(templateFiles, "templates/*.html"))

// policy lets a page do nothing but apply its own two style sheets. The empty
// icon is an image in the page itself, so that browsers ask for none.
func policy(paper string) string {
	return "default-src 'none'; style-src " + hashSource(styleSheet) + " " + hashSource(paper) +
		"; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func hashSource(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// paperStyle prints a text at the foot of every sheet.
func paperStyle(text string) string {
	return `@page { @bottom-left { content: "` + cssString(text) +
		`"; font: 8pt "DejaVu Sans", sans-serif; color: #525d69; } }`
}

// cssString is a text between the quotes of a style sheet: all but letters,
// digits and a few harmless signs is written as its code point.
func cssString(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_.,", r)) {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, "\\%06x", r)
	}
	return out.String()
}

// page is an answer: a body of one of the templates in the common frame.
type page struct {
	Status int
	Title  string
	Crumbs []crumb
	// Body is the name of the template that shows View.
	Body string
	View any
	// Foot are facts at the page's end, Paper what stands below every sheet.
	Foot  []fact
	Paper string
}

// crumb is a step on the way to a page; the last one has no path.
type crumb struct{ Title, Path string }

// fact is a name and its value; Code is shown letter by letter.
type fact struct {
	Name, Value string
	Code        bool
}

// frame is what layout.html shows.
type frame struct {
	*page
	Style, PaperStyle template.CSS
	Content           template.HTML
	Made              string
}

func (p *pages) render(shown *page) ([]byte, error) {
	var body, out bytes.Buffer
	if err := templates.ExecuteTemplate(&body, shown.Body, shown.View); err != nil {
		return nil, fmt.Errorf("render page %q: %w", shown.Title, err)
	}
	made := instant(p.deps.Clock.Now(), time.UTC)
	// What a template made of its view is safe, and so is our own style sheet.
	whole := frame{
		page: shown, Style: template.CSS(styleSheet), PaperStyle: template.CSS(paperStyle(shown.Paper)),
		Content: template.HTML(body.String()), Made: made,
	}
	if err := templates.ExecuteTemplate(&out, "layout.html", whole); err != nil {
		return nil, fmt.Errorf("render frame of page %q: %w", shown.Title, err)
	}
	return out.Bytes(), nil
}

// serve answers with a page, or with the page of what went wrong; nothing is
// sent before all of it is there.
func (p *pages) serve(make func(*http.Request) (*page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		shown, err := make(r)
		if err != nil {
			shown = p.problem(r.Context(), err)
		}
		body, err := p.render(shown)
		if err != nil {
			shown = p.problem(r.Context(), err)
			if body, err = p.render(shown); err != nil {
				http.Error(w, "the page could not be made; the service's log says why", http.StatusInternalServerError)
				return
			}
		}
		write(w, shown, body)
	}
}

func write(w http.ResponseWriter, shown *page, body []byte) {
	for name, value := range map[string]string{
		"Content-Type":                 "text/html; charset=utf-8",
		"Content-Security-Policy":      policy(paperStyle(shown.Paper)),
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store", // money, and a draft changes
	} {
		w.Header().Set(name, value)
	}
	if shown.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
	}
	w.WriteHeader(shown.Status)
	_, _ = w.Write(body) // the reader hung up: nobody to tell
}

// cancelled tells that the reader went away, which is nobody's fault.
func cancelled(ctx context.Context) bool { return ctx.Err() == context.Canceled }
