package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gputally/gputally/billing/invoice"
	"github.com/gputally/gputally/internal/decisions"
)

// Idempotent is the header that every decision requires. A repeated request with the same key gets the first one's
// outcome.
type Idempotent struct {
	Key string `header:"Idempotency-Key" required:"true" pattern:"^[!-~]([ -~]{0,178}[!-~])?$" doc:"1 to 180 printable ASCII characters that the client chooses, such as a UUID. If the same person repeats a request with the same key, it decides nothing again. The same key with another request is a 409" example:"4f7c2a52-2026-10-ml-train"`
}

// IfMatch is the hash of the only content that may be decided: a precondition (RFC 9110, section 13.1.1) on the
// document of the decision.
type IfMatch struct {
	IfMatch string `header:"If-Match" pattern:"^(\"[0-9a-f]{64}\")?$" doc:"content_sha256 of the draft, pending note or document that was reviewed, in double quotes like an ETag. If the content has changed since, nothing is decided (412)" example:"\"c3b6c210e10fe8779b9766633797de24d1657a3d32bc37b38b2cca9c735cfee9\""`
}

func (p *IfMatch) content() string { return strings.Trim(p.IfMatch, `"`) }

// decidedOutput is the answer to a decision on a document: 201 if this request made it, 200 if it was made before.
type decidedOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the document"`
	Replayed string `header:"Idempotency-Replayed" enum:"true" doc:"true: an earlier request with this Idempotency-Key made the decision"`
	Body     decidedBody
}

// decidedBody is the same for all requests of the same decision.
type decidedBody struct {
	Number   string `json:"number" example:"2026-10-ml-train-r0"`
	Tenant   string `json:"tenant" example:"ml-train"`
	Kind     string `json:"kind" enum:"invoice,credit_note,debit_note"`
	Total    string `json:"total" example:"1234.50"`
	Currency string `json:"currency" example:"EUR"`
	Content  string `json:"content_sha256" doc:"SHA-256 of the document"`
}

type finaliseInput struct {
	Idempotent
	IfMatch
	Body struct {
		Period          string `json:"period" pattern:"^(197[1-9]|19[89][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month; all its hours must be closed" example:"2026-10"`
		Tenant          string `json:"tenant" minLength:"1" maxLength:"400" doc:"Tenant whose month is finalised" example:"ml-train"`
		Who             string `json:"who" minLength:"1" maxLength:"200" doc:"Name of the person who decides; stored with the decision" example:"finance@example.com"`
		RequireApproval bool   `json:"require_approval,omitempty" doc:"Finalise only if another person approved exactly this content"`
		WithoutUsage    bool   `json:"without_usage,omitempty" doc:"Finalise although the ledger has no hour of the month. Otherwise that is refused, because the history may still be imported"`
		WithoutUnpriced bool   `json:"without_unpriced,omitempty" doc:"Finalise although other tenants used models without a rate. Nothing of those hours is then ever distributed. Otherwise that is refused, because a rate may still be added"`
	}
}

func (a *api) finalise(ctx context.Context, in *finaliseInput) (*decidedOutput, error) {
	if err := person(in.Body.Who); err != nil {
		return nil, err
	}
	done, err := a.deps.Register.Finalise(ctx, invoice.FinaliseRequest{
		Period: in.Body.Period, Tenants: []string{in.Body.Tenant}, Who: in.Body.Who, Key: in.of(in.Body.Who),
		Approved: in.Body.RequireApproval,
		Expect:   in.content(), WithoutUsage: in.Body.WithoutUsage, WithoutUnpriced: in.Body.WithoutUnpriced,
	})
	if err != nil {
		return nil, a.refused(ctx, decisions.KindInvoice, in.Body.Who, decisions.Number(in.Body.Period, in.Body.Tenant, 0), err)
	}
	return a.told(ctx, decisions.KindInvoice, in.Body.Who, in.of(in.Body.Who), &done[0]), nil
}

type correctInput struct {
	Idempotent
	IfMatch
	NumberInPath
	Body struct {
		Who             string `json:"who" minLength:"1" maxLength:"200" doc:"Name of the person who decides; stored with the decision" example:"finance@example.com"`
		RequireApproval bool   `json:"require_approval,omitempty" doc:"Decide only if another person approved exactly this content"`
	}
}

func (a *api) correct(ctx context.Context, in *correctInput) (*decidedOutput, error) {
	if err := person(in.Body.Who); err != nil {
		return nil, err
	}
	record, err := a.decided(ctx, in.Number)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	done, err := a.deps.Register.Correct(ctx, invoice.CorrectRequest{
		Period: record.Body.Period, Tenant: record.Body.Tenant, Who: in.Body.Who, Key: in.of(in.Body.Who),
		Approved: in.Body.RequireApproval, Expect: in.content(),
	})
	if err != nil {
		return nil, a.refused(ctx, decisions.KindNote, in.Body.Who, in.Number, err)
	}
	return a.told(ctx, decisions.KindNote, in.Body.Who, in.of(in.Body.Who), &done), nil
}

type approveInput struct {
	Idempotent
	IfMatch string `header:"If-Match" required:"true" pattern:"^\"[0-9a-f]{64}\"$" doc:"content_sha256 of the draft or pending note that was reviewed, in double quotes like an ETag. If the content has changed since, nothing is approved (412)" example:"\"c3b6c210e10fe8779b9766633797de24d1657a3d32bc37b38b2cca9c735cfee9\""`
	Body    struct {
		Period  string `json:"period" pattern:"^(197[1-9]|19[89][0-9]|20[0-9][0-9]|210[0-5])-(0[1-9]|1[0-2])$" doc:"Calendar month" example:"2026-10"`
		Tenant  string `json:"tenant" minLength:"1" maxLength:"400" doc:"Tenant whose draft or pending note is approved" example:"ml-train"`
		Who     string `json:"who" minLength:"1" maxLength:"200" doc:"Name of the person who approves; another person must finalise" example:"controller@example.com"`
		Comment string `json:"comment,omitempty" maxLength:"1000" doc:"Remark that is stored with the approval" example:"checked against the plan"`
	}
}

type approvedOutput struct {
	Status   int
	Replayed string `header:"Idempotency-Replayed" enum:"true" doc:"true: an earlier request with this Idempotency-Key made the decision"`
	Body     approvedBody
}

type approvedBody struct {
	Number   string `json:"number" doc:"Number that the invoice or note will have" example:"2026-10-ml-train-r0"`
	Tenant   string `json:"tenant" example:"ml-train"`
	Total    string `json:"total" doc:"Total of the approved document; empty in approvals of the first builds" example:"1234.50"`
	Currency string `json:"currency" example:"EUR"`
	Content  string `json:"content_sha256" doc:"SHA-256 of the approved document"`
}

func (a *api) approve(ctx context.Context, in *approveInput) (*approvedOutput, error) {
	if err := person(in.Body.Who); err != nil {
		return nil, err
	}
	if err := printable("body.comment", in.Body.Comment); in.Body.Comment != "" && err != nil {
		return nil, err
	}
	done, err := a.deps.Register.Approve(ctx, invoice.ApproveRequest{
		Period: in.Body.Period, Tenant: in.Body.Tenant, Who: in.Body.Who, Comment: in.Body.Comment, Key: in.of(in.Body.Who),
		Expect: strings.Trim(in.IfMatch, `"`),
	})
	if err != nil {
		subject := decisions.Number(in.Body.Period, in.Body.Tenant, 0)
		return nil, a.refused(ctx, decisions.KindApproval, in.Body.Who, subject, err)
	}
	told := a.told(ctx, decisions.KindApproval, in.Body.Who, in.of(in.Body.Who), &done)
	return &approvedOutput{Status: told.Status, Replayed: told.Replayed, Body: approvedBody{
		Number: done.Number, Tenant: done.Tenant, Total: done.Total, Currency: done.Currency, Content: done.Content,
	}}, nil
}

// of is the key as stored with the decisions. It contains the sender's name: a key can't be used up, or its answer
// read, by another person.
func (i Idempotent) of(who string) string {
	if person, err := decisions.Person(who); err == nil {
		who = person
	}
	sum := sha256.Sum256([]byte(who))
	return hex.EncodeToString(sum[:8]) + ":" + i.Key
}

// told answers with a decision that was made, and logs it.
func (a *api) told(ctx context.Context, kind decisions.Kind, who, key string, done *invoice.Decided) *decidedOutput {
	out := &decidedOutput{
		Status: http.StatusCreated, Location: Prefix + "/invoices/" + url.PathEscape(done.Number),
		Body: decidedBody{
			Number: done.Number, Tenant: done.Tenant, Kind: done.Kind, Total: done.Total,
			Currency: done.Currency, Content: done.Content,
		},
	}
	outcome := outcomeDecided
	if done.Already {
		out.Status, outcome = http.StatusOK, outcomeAlready
		if a.used(key) {
			out.Replayed, outcome = "true", outcomeReplayed
		}
	}
	a.note(ctx, kind, who, done.Number, outcome, "")
	return out
}

// used returns whether an idempotency key was used for a decision.
func (a *api) used(key string) (used bool) {
	a.deps.Decisions.View(func(state *decisions.State) { _, used = state.Used(key) })
	return used
}

// refused logs a decision that was not made, and returns the reason.
func (a *api) refused(ctx context.Context, kind decisions.Kind, who, subject string, err error) error {
	outcome, answer := outcomeRefused, a.problem(ctx, err)
	if failed(answer) {
		outcome = outcomeFailed
	}
	a.note(ctx, kind, who, subject, outcome, err.Error())
	return answer
}

// note counts and logs a decision.
func (a *api) note(ctx context.Context, kind decisions.Kind, who, subject, outcome, reason string) {
	a.metrics.decisions.WithLabelValues(string(kind), outcome).Inc()
	a.deps.Log.InfoContext(ctx, "decision asked for", "kind", kind, "who", who, "subject", subject, "outcome", outcome,
		"reason", reason)
}

// person refuses names that can be confused with another's.
func person(who string) error {
	if err := printable("body.who", who); err != nil {
		return err
	}
	if _, err := decisions.Person(who); err != nil {
		return invalid("body.who", who, err.Error())
	}
	return nil
}

// printable refuses text with invisible characters, since names and comments are shown in the audit log. Spaces and
// line breaks inside are allowed in comments only, which schema and decisions check.
func printable(location, text string) error {
	for _, r := range text {
		if !unicode.IsPrint(r) && (location != "body.comment" || r != '\n' && r != '\t') || r == utf8.RuneError {
			return invalid(location, text, fmt.Sprintf("has the character %U, which can't be printed", r))
		}
	}
	return nil
}
