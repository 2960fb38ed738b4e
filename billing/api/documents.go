package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/decisions"
)

// NumberInPath is the number of a finalised document.
type NumberInPath struct {
	Number string `path:"number" minLength:"1" maxLength:"700" doc:"Number of an invoice or note; a slash in it is written %2F" example:"2026-10-ml-train-r0"`
}

// documentOutput is a document in its decided bytes.
type documentOutput struct {
	ContentType string `header:"Content-Type"`
	Head        string `header:"Decisions-Head" doc:"OFFSET=CHAIN of the audit hash chain after the document's decision, for gputally audit --expect"`
	Body        []byte
}

func (a *api) showInvoice(ctx context.Context, in *NumberInPath) (*documentOutput, error) {
	content, err := a.deps.Register.Document(ctx, in.Number)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &documentOutput{ContentType: jsonType, Head: a.deps.Register.Head(in.Number), Body: content}, nil
}

func (a *api) document(ctx context.Context, number string) (*invoice.Invoice, error) {
	content, err := a.deps.Register.Document(ctx, number)
	if err != nil {
		return nil, err
	}
	var document invoice.Invoice
	if err := json.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("read invoice %s: %w", number, err)
	}
	return &document, nil
}

type listLinesInput struct {
	Paged
	NumberInPath
	Effect  string `query:"effect" maxLength:"100" doc:"Only lines of this effect" example:"list"`
	Project string `query:"project" maxLength:"500" doc:"Only lines of this project"`
	Model   string `query:"model" maxLength:"500" doc:"Only lines of this model"`
	Profile string `query:"profile" maxLength:"500" doc:"Only lines of this MIG profile"`
	Bucket  string `query:"bucket" enum:"active,idle,unproven" doc:"Only lines of this bucket"`
	Limit   int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of lines on a page"`
}

func (in *listLinesInput) wants(line *invoice.Line) bool {
	for _, filter := range [][2]string{
		{in.Effect, line.Effect},
		{in.Project, line.Project},
		{in.Model, line.Model},
		{in.Profile, line.Profile},
		{in.Bucket, line.Bucket},
	} {
		if filter[0] != "" && filter[0] != filter[1] {
			return false
		}
	}
	return true
}

type linesBody struct {
	Number string         `json:"number"`
	Lines  []numberedLine `json:"lines" nullable:"false"`
	Next   string         `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page"`
}

type numberedLine struct {
	LineNumber int `json:"line_number" doc:"Position in the document, from 1; the evidence operation takes it"`
	invoice.Line
}

func (l *numberedLine) key() []string { return []string{revisionKey(l.LineNumber)} }

func (a *api) listLines(ctx context.Context, in *listLinesInput) (*list[linesBody], error) {
	document, err := a.document(ctx, in.Number)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	all := []numberedLine{}
	for i := range document.Lines {
		if in.wants(&document.Lines[i]) {
			all = append(all, numberedLine{i + 1, document.Lines[i]})
		}
	}
	page := pick(&in.Paged, in.Limit, all, (*numberedLine).key)
	return &list[linesBody]{Link: page.link, Body: linesBody{Number: in.Number, Lines: page.items, Next: page.next}}, nil
}

type listNotesInput struct {
	Paged
	NumberInPath
	Limit int `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of notes on a page"`
}

// listNotes returns the notes on the month of any of its documents.
func (a *api) listNotes(ctx context.Context, in *listNotesInput) (*list[invoicesBody], error) {
	record, err := a.decided(ctx, in.Number)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	var chain []decisions.Decided[decisions.Invoice]
	a.deps.Decisions.View(func(state *decisions.State) { chain = state.Revisions(record.Body.Tenant, record.Body.Period) })
	notes := []summary{}
	for i := range chain {
		if chain[i].Body.Revision > 0 {
			notes = append(notes, a.decidedSummary(&chain[i]))
		}
	}
	page := pick(&in.Paged, in.Limit, notes, (*summary).key)
	return &list[invoicesBody]{Link: page.link, Body: invoicesBody{Invoices: page.items, Next: page.next}}, nil
}

// decided returns the decision with a number.
func (a *api) decided(ctx context.Context, number string) (record decisions.Decided[decisions.Invoice], err error) {
	if err := a.deps.Decisions.Refresh(ctx); err != nil {
		return record, err
	}
	found := false
	a.deps.Decisions.View(func(state *decisions.State) { record, found = state.Invoice(number) })
	if !found {
		return record, fmt.Errorf("find invoice %q: %w", number, invoice.ErrNotFound)
	}
	return record, nil
}

func (a *api) verifyInvoice(ctx context.Context, in *NumberInPath) (*answer[*invoice.Verdict], error) {
	verdict, err := a.deps.Register.Verify(ctx, in.Number)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &answer[*invoice.Verdict]{verdict}, nil
}

type evidenceInput struct {
	Paged
	NumberInPath
	Line  int `path:"line" minimum:"1" maximum:"1000000" doc:"Number of the line, from 1" example:"1"`
	Limit int `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of GPU-hours on a page"`
}

type evidenceBody struct {
	Number     string            `json:"number"`
	LineNumber int               `json:"line_number"`
	Line       invoice.Line      `json:"line"`
	Hours      int               `json:"hours" doc:"Number of UTC hours that the line has in the document's copy of usage"`
	Moved      []string          `json:"moved_hours" nullable:"false" doc:"Hours for which the ledger now differs from the document's copy"`
	GPUHours   []invoice.GPUHour `json:"gpu_hours" nullable:"false" doc:"The parts of GPU-hours in the ledger, with their batches"`
	Next       string            `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page"`
}

func gpuHourKey(g *invoice.GPUHour) []string {
	return []string{
		g.Hour, g.Cluster, g.Node, g.GPU, g.Leaf, g.Project, g.User, g.Workload, g.Profile, g.SliceMS,
		strconv.Itoa(g.Slices), g.EnergyMJ,
	}
}

func (a *api) showEvidence(ctx context.Context, in *evidenceInput) (*list[evidenceBody], error) {
	found, err := a.deps.Register.Evidence(ctx, in.Number, in.Line)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	slices.SortFunc(found.GPUHours,
		func(x, y invoice.GPUHour) int { return slices.Compare(gpuHourKey(&x), gpuHourKey(&y)) })
	page := pick(&in.Paged, in.Limit, found.GPUHours, gpuHourKey)
	return &list[evidenceBody]{Link: page.link, Body: evidenceBody{
		Number: found.Number, LineNumber: found.LineNumber, Line: found.Line, Hours: found.Hours, Moved: found.Moved,
		GPUHours: page.items, Next: page.next,
	}}, nil
}

type adjustmentsInput struct {
	Paged
	Period string `query:"period" required:"true" pattern:"^(197[1-9]|19[89][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month" example:"2026-10"`
	Tenant string `query:"tenant" maxLength:"500" doc:"Only of this tenant" example:"ml-train"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of adjustments on a page"`
}

type adjustmentsBody struct {
	Adjustments []invoice.Adjustment `json:"adjustments" nullable:"false"`
	Next        string               `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page"`
}

func adjustmentKey(of *invoice.Adjustment) []string { return []string{of.Note.Tenant} }

// listAdjustments returns the notes that would be decided now: for invoices of a month whose usage in the ledger has
// changed.
func (a *api) listAdjustments(ctx context.Context, in *adjustmentsInput) (*list[adjustmentsBody], error) {
	found, err := a.deps.Register.Adjustments(ctx, in.Period)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	pending := []invoice.Adjustment{}
	for i := range found {
		if in.Tenant == "" || found[i].Note.Tenant == in.Tenant {
			pending = append(pending, found[i])
		}
	}
	page := pick(&in.Paged, in.Limit, pending, adjustmentKey)
	return &list[adjustmentsBody]{Link: page.link, Body: adjustmentsBody{Adjustments: page.items, Next: page.next}}, nil
}
