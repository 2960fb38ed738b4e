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

// policy allows a page only its own two style sheets. The empty icon is an image in the page itself, so that browsers
// request none.
func policy(paper string) string {
	return "default-src 'none'; style-src " + hashSource(styleSheet) + " " + hashSource(paper) +
		"; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func hashSource(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// paperStyle prints a text at the bottom of every sheet.
func paperStyle(text string) string {
	return `@page { @bottom-left { content: "` + cssString(text) +
		`"; font: 8pt "DejaVu Sans", sans-serif; color: #525d69; } }`
}

// cssString quotes a text for a style sheet: all but letters, digits and a few harmless signs are escaped by code
// point.
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
	// Body is the name of the template that renders View.
	Body string
	View any
	// Foot are facts at the page's end, Paper is printed below every sheet.
	Foot  []fact
	Paper string
}

// crumb is an entry of the breadcrumb navigation; the last one has no path.
type crumb struct{ Title, Path string }

// fact is a name and its value; Code is set in a monospaced font.
type fact struct {
	Name, Value string
	Code        bool
}

// frame is the data of layout.html.
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
	// The output of a template is safe, and so is our own style sheet.
	whole := frame{
		page: shown, Style: template.CSS(styleSheet), PaperStyle: template.CSS(paperStyle(shown.Paper)),
		Content: template.HTML(body.String()), Made: made,
	}
	if err := templates.ExecuteTemplate(&out, "layout.html", whole); err != nil {
		return nil, fmt.Errorf("render frame of page %q: %w", shown.Title, err)
	}
	return out.Bytes(), nil
}

// serve answers with a page, or with an error page; it sends nothing before the page is complete.
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
		"Cache-Control":                "no-store", // drafts change, and pages contain amounts of money
	} {
		w.Header().Set(name, value)
	}
	if shown.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
	}
	w.WriteHeader(shown.Status)
	_, _ = w.Write(body) // the client disconnected
}

// cancelled returns whether the client disconnected.
func cancelled(ctx context.Context) bool { return ctx.Err() == context.Canceled }
