package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/clock"
)

const (
	barWidth     = 30
	barRedraw    = 100 * time.Millisecond
	barAfter     = 2 * time.Second // shorter steps need no bar
	progressStep = 10              // percent between two lines where there is no terminal
)

// Progress shows how far a step of more than two seconds is: a bar on a
// terminal, else a line every 10 %. It is used from one goroutine.
type Progress struct {
	w        io.Writer
	terminal bool
	clock    clock.Clock
	label    string
	start    time.Time
	drawn    time.Time
	percent  int
}

// NewProgress begins a step; nothing is shown before it has taken two seconds.
func NewProgress(w io.Writer, c clock.Clock, label string) *Progress {
	return &Progress{w: w, terminal: isTerminal(w), clock: c, label: label, start: c.Now()}
}

// Set shows done of total; total 0 shows nothing.
func (p *Progress) Set(done, total int64) {
	if total <= 0 {
		return
	}
	percent := max(int(min(done, total)*100/total), p.percent) // an estimate may shrink; what was shown stays
	now := p.clock.Now()
	if now.Sub(p.start) < barAfter {
		return
	}
	switch {
	case p.terminal && (now.Sub(p.drawn) >= barRedraw || percent == 100):
		p.drawn = now
		filled := percent * barWidth / 100
		bar := strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled)
		// ED (ECMA-48) clears what a longer line before left.
		p.printf("\r%s  %s %3d %%%s\x1b[K", p.label, bar, percent, p.remaining(now, done, total))
	case !p.terminal && percent/progressStep > p.percent/progressStep:
		p.printf("%s: %d %%\n", p.label, percent/progressStep*progressStep)
	}
	p.percent = percent
}

func (p *Progress) remaining(now time.Time, done, total int64) string {
	spent := now.Sub(p.start)
	if done <= 0 || done >= total {
		return ""
	}
	left := time.Duration(float64(spent) / float64(done) * float64(total-done))
	return "  " + left.Round(time.Second).String() + " left"
}

// Clear ends the bar and leaves nothing of it on a terminal.
func (p *Progress) Clear() {
	if p.terminal && !p.drawn.IsZero() {
		p.printf("\r\x1b[K")
	}
}

// Done ends the bar with the time it took and what came of it.
func (p *Progress) Done(figures string) {
	took := p.clock.Since(p.start).Round(barRedraw)
	p.Clear()
	p.printf("%s: %s in %s\n", p.label, figures, took)
}

// printf drops what cannot be shown: no step fails because its bar does.
func (p *Progress) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.w, format, args...) }
