package statement_test

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/billing/invoice"
)

var shots = flag.String("shots", "", "folder for pictures of the pages")

const loadLimit = time.Minute

// browser starts Debian's chromium; it is skipped where there is none, and
// required in CI. A short run skips the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make test-all runs it")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("chromium is needed in CI: %v", err)
		}
		t.Skipf("needs chromium, of the package chromium: %v", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the process lives as long as this context
		t.Fatal(err)
	}
	return ctx
}

// tab is a page's own, with what its console said.
type tab struct {
	context.Context
	mu   sync.Mutex
	said []string
	end  chan struct{}
}

const lastWord = "that is all"

// open loads a page in a new tab.
func open(browser context.Context, t *testing.T, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, loadLimit)
	t.Cleanup(cancel)
	p := &tab{Context: ctx, end: make(chan struct{})}
	messages := chromedp.Console(ctx)
	go func() {
		defer close(p.end)
		for message, err := range messages {
			if err != nil || message.Text == lastWord {
				return
			}
			p.mu.Lock()
			p.said = append(p.said, message.String())
			p.mu.Unlock()
		}
	}()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatalf("load %s: %v", url, err)
	}
	return p
}

// silent checks that the console said nothing, CSP violations included.
func (p *tab) silent(t *testing.T) {
	t.Helper()
	ask[any](t, p, `console.log("`+lastWord+`")`)
	<-p.end
	if len(p.said) > 0 {
		t.Errorf("the console says %q, want nothing", p.said)
	}
}

// ask evaluates an expression in the page.
func ask[T any](t *testing.T, p *tab, expression string) T {
	t.Helper()
	answer, err := chromedp.Run(p, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("evaluate %.60q: %v", expression, err)
	}
	return answer
}

func (p *tab) scheme(t *testing.T, media, scheme string) {
	t.Helper()
	_, err := chromedp.Call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *tab) viewport(t *testing.T, width, height int64) {
	t.Helper()
	if err := chromedp.Do(p, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatal(err)
	}
}

func (p *tab) picture(t *testing.T, name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	png, err := chromedp.Run(p, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	keep(t, name+".png", png)
}

func keep(t *testing.T, name string, data []byte) {
	t.Helper()
	if *shots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*shots, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// structureJS names what a page lacks for people who don't see it.
const structureJS = `(() => {
  const bad = [], count = (what, want) => { const n = document.querySelectorAll(what).length; if (n !== want) bad.push(what + ": " + n) };
  count("h1", 1); count("body > header", 1); count("main", 1); count("body > footer", 1); count("nav[aria-label]", 1);
  count("script", 0); count("img", 0); count("[style]", 0); count("[onerror]", 0); count("iframe, object, embed, form", 0);
  if (document.documentElement.lang !== "en") bad.push("lang");
  if (document.title === "hacked") bad.push("a script ran");
  for (const th of document.querySelectorAll("th:not([scope])")) bad.push("th without scope: " + th.textContent);
  for (const svg of document.querySelectorAll("svg"))
    if (svg.getAttribute("aria-hidden") !== "true" && (svg.getAttribute("role") !== "img" || !svg.querySelector("title") || !svg.querySelector("desc")))
      bad.push("svg without role, title and description");
  for (const region of document.querySelectorAll(".scroll")) if (!region.getAttribute("aria-label") || region.getAttribute("role") !== "region" || region.tabIndex !== 0) bad.push("a region without a name, or out of the keyboard's reach");
  const labels = [...document.querySelectorAll("[role=region]")].map(r => r.getAttribute("aria-label"));
  if (new Set(labels).size !== labels.length) bad.push("regions of one name: " + labels.join(", "));
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  if (new Set(ids).size !== ids.length) bad.push("an id stands twice: " + ids.join(" "));
  for (const e of document.querySelectorAll("[aria-labelledby]"))
    for (const id of e.getAttribute("aria-labelledby").split(" ")) if (!document.getElementById(id)) bad.push("no element " + id);
  let level = 0;
  for (const h of document.querySelectorAll("h1,h2,h3,h4")) { const l = +h.tagName[1]; if (l > level + 1) bad.push("heading jumps to " + h.textContent); level = l }
  return bad;
})()`

// contrastJS names text of less than 4.5:1 and coloured areas of less than 3:1
// against their ground (WCAG 2.2, 1.4.3 and 1.4.11).
const contrastJS = `(() => {
  const rgba = c => { const m = c.match(/rgba?\(([^)]*)\)/)[1].split(/[ ,\/]+/).map(Number); return m.length < 4 ? [...m, 1] : m };
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
  const ground = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 0) return over(c, [255, 255, 255]) } return [255, 255, 255] };
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05) };
  const bad = new Set();
  let texts = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || ["title", "desc"].includes(e.tagName)) continue;
    const s = getComputedStyle(e), under = ground(e);
    const r = ratio(over(rgba(e instanceof SVGElement ? s.fill : s.color), under), under);
    texts++;
    if (r < 4.5) bad.add(e.tagName + "." + e.className + " " + r.toFixed(2) + " " + walk.currentNode.data.trim().slice(0, 30));
  }
  for (const e of document.querySelectorAll("svg rect:not(.ground)")) {
    const r = ratio(rgba(getComputedStyle(e).fill), ground(e));
    if (r < 3) bad.add("rect." + e.getAttribute("class") + " " + r.toFixed(2));
  }
  if (!texts) bad.add("no text was looked at");
  return [...bad];
})()`

// overflowJS names what is wider than its place.
const overflowJS = `(() => {
  const bad = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    bad.push("page " + root.scrollWidth + " > " + root.clientWidth);
    for (const e of document.querySelectorAll("body *")) if (e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest(".scroll")) bad.push(e.tagName + "." + (e.getAttribute("class") || ""));
  }
  return bad;
})()`

// clippedJS names tables that paper would cut off.
const clippedJS = `[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth || e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.getAttribute("aria-label") + " " + e.scrollWidth + " > " + e.clientWidth)`

// focusJS is what has the focus, and whether that is seen.
const focusJS = `(() => { const e = document.activeElement, s = getComputedStyle(e);
  return (e.getAttribute("href") || e.getAttribute("aria-label") || e.textContent) + (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2 ? " (not seen)" : "") })()`

func TestPagesInABrowser(t *testing.T) {
	chromium := browser(t)
	db, book := month(t), parse(t, monthBook)
	draft := drafts{invoice.NewDrafts(db, book)}
	server := httptest.NewServer(handler(t, db, draft))
	t.Cleanup(server.Close)
	corrected := month(t)
	worked, late := inferenceHour(march, 0), inferenceHour(march.Add(time.Hour), 3)
	worked.Version, worked.Owners[0].Idle, worked.Owners[0].Active = 1, 0, gpuMS
	late.GPU, late.Version = "GPU-a100-late", 1
	notes := httptest.NewServer(handler(t, corrected, billed(t, corrected, book, "inference", worked, late)))
	t.Cleanup(notes.Close)
	away := httptest.NewServer(handler(t, failing{context.DeadlineExceeded}, failing{context.DeadlineExceeded}))
	t.Cleanup(away.Close)
	for name, url := range map[string]string{
		"months":        server.URL + "/statements/",
		"fleet":         server.URL + "/statements/2026-03",
		"waste":         server.URL + "/statements/2026-03/ml-train",
		"script":        server.URL + "/statements/2026-03/" + "%3Cscript%3Edocument.title=%22hacked%22%3C%2Fscript%3E",
		"markup":        server.URL + "/statements/2026-03/%22%3E%3Cimg%20src=x%20onerror=document.title=%22hacked%22%3E",
		"turned":        server.URL + "/statements/2026-03/%E2%80%AEkcab%20ot%20tnorf",
		"notes":         notes.URL + "/statements/2026-03/inference",
		"billed":        notes.URL + "/statements/2026-03",
		"empty-month":   server.URL + "/statements/2026-05",
		"empty-tenant":  server.URL + "/statements/2026-03/minimum-only",
		"nobody":        server.URL + "/statements/2026-03/nobody",
		"store-is-away": away.URL + "/statements/2026-03",
	} {
		t.Run(name, func(t *testing.T) { checkPage(chromium, t, name, url) })
	}
}

func checkPage(chromium context.Context, t *testing.T, name, url string) {
	p := open(chromium, t, url)
	if bad := ask[[]string](t, p, structureJS); len(bad) > 0 {
		t.Errorf("structure: %q", bad)
	}
	for _, width := range []int64{1280, 800, 390} {
		p.viewport(t, width, 900)
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(t, "screen", scheme)
			if bad := ask[[]string](t, p, overflowJS); len(bad) > 0 {
				t.Errorf("%d px: %q", width, bad)
			}
			if bad := ask[[]string](t, p, contrastJS); len(bad) > 0 {
				t.Errorf("%d px, %s: contrast: %q", width, scheme, bad)
			}
			p.picture(t, fmt.Sprintf("%s-%d-%s", name, width, scheme))
		}
	}
	p.viewport(t, 1280, 900)
	checkPaper(t, p, name)
	checkKeyboard(t, p)
	if status := ask[int](t, p, `performance.getEntriesByType("resource").length`); status != 0 {
		t.Errorf("the page loads %d other things, want none", status)
	}
	if name != "nobody" && name != "store-is-away" { // the browser notes a status that is an error
		p.silent(t)
	}
}

var mediaBox = regexp.MustCompile(`/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]`)

// checkPaper prints: sheets of A4 (595 × 842 points), no table cut off.
func checkPaper(t *testing.T, p *tab, name string) {
	t.Helper()
	p.scheme(t, "print", "dark")
	const a4Inner = 688 // CSS px: 210 mm less margins of 14 mm
	p.viewport(t, a4Inner, 1000)
	for what, script := range map[string]string{"overflow": overflowJS, "clipped": clippedJS, "contrast": contrastJS} {
		if bad := ask[[]string](t, p, script); len(bad) > 0 {
			t.Errorf("on paper: %s: %q", what, bad)
		}
	}
	p.scheme(t, "", "light")
	p.viewport(t, 1280, 900)
	pdf, err := chromedp.Run(p, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize()))
	if err != nil {
		t.Fatal(err)
	}
	keep(t, name+".pdf", pdf)
	sheets := mediaBox.FindAllSubmatch(pdf, -1)
	if len(sheets) == 0 {
		t.Error("the PDF has no sheets")
	}
	for _, sheet := range sheets {
		if !strings.HasPrefix(string(sheet[1]), "59") || !strings.HasPrefix(string(sheet[2]), "84") {
			t.Errorf("a sheet of %s × %s points, want A4: 595 × 842", sheet[1], sheet[2])
		}
	}
}

// checkKeyboard walks by tabulator, which must come to every link, table and
// summary, and be seen to.
func checkKeyboard(t *testing.T, p *tab) {
	t.Helper()
	p.scheme(t, "screen", "light")
	ask[any](t, p, `document.querySelectorAll("details").forEach(d => d.open = false)`)
	want := ask[[]string](t, p, `[...document.querySelectorAll("a[href], summary, [tabindex='0']")].filter(e => e.checkVisibility({contentVisibilityAuto: true})).map(e => e.getAttribute("href") || e.getAttribute("aria-label") || e.textContent)`)
	var got []string
	for range want {
		if err := chromedp.Do(p, chromedp.KeyEvent(kb.Tab)); err != nil {
			t.Fatal(err)
		}
		got = append(got, ask[string](t, p, focusJS))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the tabulator comes to (-want +got):\n%s", diff)
	}
}
