package api

import (
	"context"
	"slices"
	"strconv"

	"github.com/gputally/gputally/internal/decisions"
)

// maxScan bounds the decisions that one request reads while it searches; so a page may be short and not the last.
const maxScan = 1000

type decisionsInput struct {
	Paged
	Kind     string `query:"kind" enum:"price_book,freeze,invoice,note,approval,mapping,audit,policy,finding,part" doc:"Only this kind. Without it, all kinds but part" example:"invoice"`
	Accepted string `query:"accepted" enum:"true,false" doc:"true: only accepted decisions; false: only refused ones"`
	Who      string `query:"who" maxLength:"200" doc:"Only decisions of this person"`
	Order    string `query:"order" enum:"ascending,descending" default:"ascending" doc:"ascending: oldest decision first"`
	Limit    int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of decisions on a page"`
}

type decisionsBody struct {
	Decisions []decisionBody `json:"decisions" nullable:"false"`
	End       int64          `json:"end_offset" doc:"Offset that the next message of the log will have"`
	Chain     string         `json:"chain" doc:"Newest value of the audit hash chain. Keep it to find out later whether anything before it was changed"`
	Next      string         `json:"next,omitempty" doc:"Cursor of the next page; absent on the last page. A page with fewer decisions than limit isn't necessarily the last"`
}

type decisionBody struct {
	Offset    int64  `json:"offset"`
	Kind      string `json:"kind" doc:"Empty if the message isn't a readable record"`
	Accepted  bool   `json:"accepted"`
	Reason    string `json:"reason,omitempty" doc:"Why the decision was refused"`
	Repeats   *int64 `json:"repeats,omitempty" doc:"Offset of the first decision with the same key and request"`
	Subject   string `json:"subject,omitempty" doc:"What the decision is about: a document's number, a hash, a range of hours or an id"`
	Who       string `json:"who,omitempty"`
	At        string `json:"at,omitempty" format:"date-time" doc:"By the writer's clock"`
	Appended  string `json:"appended_at" format:"date-time" doc:"By the broker's clock"`
	Key       string `json:"key,omitempty" doc:"Idempotency key"`
	Request   string `json:"request_sha256,omitempty" doc:"SHA-256 of the request"`
	ID        string `json:"id,omitempty"`
	Chain     string `json:"chain" doc:"Value of the audit hash chain after this message"`
	SizeBytes int    `json:"size_bytes"`
}

func (d *decisionBody) key() []string { return []string{strconv.FormatInt(d.Offset, 10)} }

// wants filters by what the state stores of a message.
func (in *decisionsInput) wants(outcome *decisions.Outcome) bool {
	if in.Kind == "" && outcome.Kind == decisions.KindPart || in.Kind != "" && string(outcome.Kind) != in.Kind {
		return false
	}
	return in.Accepted == "" || strconv.FormatBool(outcome.Accepted) == in.Accepted
}

func (a *api) listDecisions(ctx context.Context, in *decisionsInput) (*list[decisionsBody], error) {
	if err := a.deps.Decisions.Refresh(ctx); err != nil {
		return nil, a.problem(ctx, err)
	}
	out := &list[decisionsBody]{Body: decisionsBody{Decisions: []decisionBody{}}}
	offsets, err := a.wantedOffsets(in, &out.Body)
	if err != nil {
		return nil, err
	}
	last := int64(-1) // the last one read
	for asked := range slices.Chunk(offsets[:min(len(offsets), maxScan)], in.Limit) {
		if len(out.Body.Decisions) == in.Limit {
			break
		}
		entries, err := a.entries(ctx, asked)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		for _, entry := range entries {
			if len(out.Body.Decisions) == in.Limit {
				break
			}
			if in.Who == "" || entry.Who == in.Who {
				out.Body.Decisions = append(out.Body.Decisions, entry)
			}
			last = entry.Offset
		}
	}
	if n := len(offsets); n > 0 && last != offsets[n-1] {
		out.Body.Next = in.cursor((&decisionBody{Offset: last}).key())
		out.Link = in.link(out.Body.Next)
	}
	return out, nil
}

// wantedOffsets returns those after the cursor, in the requested order.
func (a *api) wantedOffsets(in *decisionsInput, body *decisionsBody) (offsets []int64, err error) {
	after, step := int64(-1), int64(1)
	a.deps.Decisions.View(func(state *decisions.State) { body.End, body.Chain = state.Next(), state.Chain() })
	if in.Order == "descending" {
		after, step = body.End, -1
	}
	if in.after != nil {
		if len(in.after) != 1 {
			return nil, in.foreign()
		}
		if after, err = strconv.ParseInt(in.after[0], 10, 64); err != nil || after < 0 || after >= body.End {
			return nil, in.foreign()
		}
	}
	a.deps.Decisions.View(func(state *decisions.State) {
		for offset := after + step; offset >= 0 && offset < body.End && len(offsets) <= maxScan; offset += step {
			if outcome, _ := state.Outcome(offset); in.wants(&outcome) {
				offsets = append(offsets, offset)
			}
		}
	})
	return offsets, nil
}

// entries returns the decisions at offsets, which ascend or descend, in their order.
func (a *api) entries(ctx context.Context, offsets []int64) ([]decisionBody, error) {
	ascending := slices.Sorted(slices.Values(offsets))
	var entries []decisionBody
	err := a.deps.Decisions.Pick(ctx, ascending, func(entry decisions.Entry) error {
		entries = append(entries, newDecision(&entry))
		return nil
	})
	if offsets[0] != ascending[0] {
		slices.Reverse(entries)
	}
	return entries, err
}

func newDecision(entry *decisions.Entry) decisionBody {
	body := decisionBody{
		Offset: entry.Offset, Kind: string(entry.Kind), Accepted: entry.Accepted, Reason: entry.Reason,
		Subject: entry.Subject(), Who: entry.Record.Who, Appended: rfc3339(entry.Appended), Key: entry.Record.Key,
		Request: entry.Record.Request, ID: entry.Record.ID, Chain: entry.Chain, SizeBytes: entry.Bytes,
	}
	if entry.Repeats >= 0 {
		body.Repeats = &entry.Repeats
	}
	if entry.Record.ID != "" {
		body.At = rfc3339(entry.Record.At)
	}
	return body
}
