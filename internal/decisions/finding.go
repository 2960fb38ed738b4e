package decisions

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The actions of a Finding.
const (
	FindingAck   = "ack"   // somebody looks after it
	FindingMute  = "mute"  // no alert until an end
	FindingJudge = "judge" // whether it was worth finding
	FindingClear = "clear" // ends all marks of its target
)

// The verdicts on a finding.
const (
	VerdictUseful  = "useful"  // something was wasted or wrong
	VerdictFalse   = "false"   // nothing was
	VerdictPlanned = "planned" // it is as found, and was meant to be
)

// MaxMute is the longest time for which findings are muted.
const MaxMute = 366 * 24 * time.Hour

// Target is one finding (a row of table anomalies), by its ID; or without an ID, a pattern:
// all findings that have its other fields, of which an empty one stands for any value.
type Target struct {
	ID       string `json:"id,omitempty"` // 32 hex digits
	Kind     string `json:"kind,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Project  string `json:"project,omitempty"`
	Workload string `json:"workload,omitempty"`
}

// String is the ID, or the fields of the pattern.
func (t Target) String() string {
	if t.ID != "" {
		return t.ID
	}
	var fields []string
	for _, f := range [][2]string{{"kind", t.Kind}, {"tenant", t.Tenant}, {"project", t.Project}, {"workload", t.Workload}} {
		if f[1] != "" {
			fields = append(fields, f[0]+" "+f[1])
		}
	}
	return strings.Join(fields, ", ")
}

// key is what identifies the target's marks.
func (t Target) key() Target {
	if t.ID != "" {
		return Target{ID: t.ID}
	}
	return t
}

// Finding is an action on one finding, or, for a mute and its end, on all that fit a
// pattern. The newest action of each sort on a target counts.
type Finding struct {
	Action string `json:"action"`
	// Target: with an ID, Kind is the finding's, for Scores, and the rest is empty.
	Target
	Owner   string    `json:"owner,omitempty"`  // of a mute: who answers for it
	Reason  string    `json:"reason,omitempty"` // of a mute it is required
	Until   time.Time `json:"until,omitzero"`   // end of a mute, UTC
	Verdict string    `json:"verdict,omitempty"`
}

var (
	findingID   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	findingKind = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
)

func (f *Finding) check() error {
	errs := []error{oneOf("action", f.Action, FindingAck, FindingMute, FindingJudge, FindingClear), f.Target.check()}
	mute, judge := f.Action == FindingMute, f.Action == FindingJudge
	switch {
	case f.ID == "" && !mute && f.Action != FindingClear:
		errs = append(errs, fmt.Errorf("id is empty: %s is for one finding", f.Action))
	case judge && f.Kind == "":
		errs = append(errs, errors.New("kind is empty: give that of the finding"))
	}
	if mute {
		errs = append(errs, name("owner", f.Owner), instant("until", f.Until))
	} else if errs = append(errs, oneOf("owner", f.Owner, "")); !f.Until.IsZero() {
		errs = append(errs, errors.New("until is only for mute"))
	}
	if mute || f.Reason != "" {
		errs = append(errs, name("reason", f.Reason))
	}
	if judge {
		return join(append(errs, oneOf("verdict", f.Verdict, VerdictUseful, VerdictFalse, VerdictPlanned))...)
	}
	return join(append(errs, oneOf("verdict", f.Verdict, ""))...)
}

func (t *Target) check() error {
	var errs []error
	if t.ID != "" && !findingID.MatchString(t.ID) {
		errs = append(errs, wrong("id", t.ID, "32 lower-case hex digits"))
	}
	if t.Kind != "" && !findingKind.MatchString(t.Kind) {
		errs = append(errs, wrong("kind", t.Kind, "the kind of a finding"))
	}
	if t.ID != "" && t.Tenant+t.Project+t.Workload != "" {
		errs = append(errs, errors.New("tenant, project or workload is given with an id: want one or the other"))
	}
	if *t == (Target{}) {
		errs = append(errs, errors.New("id is empty: give it, or a kind, tenant, project or workload"))
	}
	for _, f := range [][2]string{{"tenant", t.Tenant}, {"project", t.Project}, {"workload", t.Workload}} {
		if len(f[1]) > MaxTenantBytes || !utf8.ValidString(f[1]) {
			errs = append(errs, wrong(f[0], f[1], fmt.Sprintf("at most %d bytes of UTF-8", MaxTenantBytes)))
		}
	}
	return errors.Join(errs...)
}

// refuse compares the end of a mute with the record's own time, which the chain covers.
// Nothing else depends on earlier actions, so that the number of marks that are kept
// (maxMarked) decides about no record.
func (f *Finding) refuse(_ *State, at place) string {
	if decided := at.record.At; f.Action == FindingMute &&
		(!f.Until.After(decided) || f.Until.After(decided.Add(MaxMute))) {
		return fmt.Sprintf("until is %s, want a time after %s, the time of the decision, by at most %d days",
			f.Until.Format(time.RFC3339), decided.Format(time.RFC3339), MaxMute/(24*time.Hour))
	}
	return ""
}

func (f *Finding) admit(s *State, at place) string {
	if refusal := f.refuse(s, at); refusal != "" {
		return refusal
	}
	s.findings.Fold(entry(at, f))
	return ""
}

// Marks are what people have said of a finding, as of an instant. The zero value: nothing.
type Marks struct {
	AcknowledgedBy string    // a person; empty: nobody
	MutedUntil     time.Time // zero: it is not muted
	MuteOwner      string    // who answers for the mute
	MuteReason     string
	Judged         string // the verdict; empty: none
}

// Muted reports whether the finding raises no alert and is hidden in tables.
func (m Marks) Muted() bool { return !m.MutedUntil.IsZero() }

// maxMarked bounds the targets whose marks are kept. When there are more, the tenth whose
// last action is the oldest loses its marks; the records stay in the log.
const maxMarked = 100_000

// Findings are the marks of findings: the fold of the accepted Findings in the order of
// their offsets. The zero value has none. It is not safe for concurrent use.
type Findings struct{ targets map[Target]marked }

// marked is the newest action of each sort on a target.
type marked struct {
	offset int64 // of the last one
	acked  string
	kind   string // of a judged finding
	judged string

	until         time.Time
	owner, reason string
}

// Findings returns the marks of findings. It may be used only where the state may.
func (s *State) Findings() *Findings { return &s.findings }

// Fold applies the next accepted action.
func (f *Findings) Fold(d Decided[Finding]) {
	key := d.Body.key()
	m := f.targets[key]
	m.offset = d.Offset
	switch d.Body.Action {
	case FindingClear:
		delete(f.targets, key)
		return
	case FindingAck:
		m.acked = d.Who
	case FindingMute:
		m.until, m.owner, m.reason = d.Body.Until, d.Body.Owner, d.Body.Reason
	case FindingJudge:
		m.kind, m.judged = d.Body.Kind, d.Body.Verdict
	}
	if f.targets == nil {
		f.targets = map[Target]marked{}
	}
	f.targets[key] = m
	if len(f.targets) > maxMarked {
		f.forget()
	}
}

// forget drops the tenth whose last action is the oldest.
func (f *Findings) forget() {
	offsets := make([]int64, 0, len(f.targets))
	for _, m := range f.targets {
		offsets = append(offsets, m.offset)
	}
	slices.Sort(offsets)
	for key, m := range f.targets {
		if m.offset < offsets[len(offsets)/10] {
			delete(f.targets, key)
		}
	}
}

// Has reports whether the target itself has marks, of which a mute may be over.
func (f *Findings) Has(t Target) bool {
	_, has := f.targets[t.key()]
	return has
}

// Marks is the one place that says what people have decided about a finding: who
// acknowledged it, whether it is muted at an instant, and the verdict on it. of is the
// finding's ID with its kind, tenant, project and workload, by which it fits patterns. Of
// several mutes the one that ends last counts. A muted finding raises no alert, and tables
// hide it; an acknowledged or judged one does, unless it is muted too.
func (f *Findings) Marks(of Target, now time.Time) Marks {
	own := f.targets[of.key()]
	m := Marks{AcknowledgedBy: own.acked, Judged: own.judged}
	for fields := range 16 { // each choice of the pattern's fields; of none: the finding's own mute
		mute := own
		if fields > 0 {
			mute = f.targets[of.pattern(fields)]
		}
		if mute.until.After(now) && mute.until.After(m.MutedUntil) {
			m.MutedUntil, m.MuteOwner, m.MuteReason = mute.until, mute.owner, mute.reason
		}
	}
	return m
}

// pattern has the fields of the target whose bits are set.
func (t Target) pattern(fields int) (p Target) {
	for bit, field := range []struct{ to, from *string }{
		{&p.Kind, &t.Kind}, {&p.Tenant, &t.Tenant}, {&p.Project, &t.Project}, {&p.Workload, &t.Workload},
	} {
		if fields&(1<<bit) != 0 {
			*field.to = *field.from
		}
	}
	return p
}

// Score counts the verdicts on the findings of a kind.
type Score struct{ Useful, False, Planned int }

// Scores are the verdicts by kind of finding, as far as marks are kept.
func (f *Findings) Scores() map[string]Score {
	scores := map[string]Score{}
	for _, m := range f.targets {
		s := scores[m.kind]
		switch m.judged {
		case VerdictUseful:
			s.Useful++
		case VerdictFalse:
			s.False++
		case VerdictPlanned:
			s.Planned++
		default:
			continue
		}
		scores[m.kind] = s
	}
	return scores
}
