package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputally/gputally/cmd/gputally/programtest"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
	"github.com/gputally/gputally/internal/hostiletest"
)

// begin keeps the decisions as they are, and records to make hostile ones of.
func (a *assault) begin(data string) {
	a.before = a.decided()
	for _, m := range a.before {
		var r decisions.Record
		if json.Unmarshal(m.Value, &r) == nil && r.Kind != "" {
			a.sound = append(a.sound, r)
		}
	}
	sum := decisions.Digest([]byte(data))
	document := decisions.Document{SHA256: sum, Bytes: 1, Parts: []string{sum}}
	for kind, body := range map[decisions.Kind]any{
		decisions.KindPriceBook: decisions.PriceBook{
			SHA256: decisions.Digest([]byte("currency: EUR\n")), Name: "p",
			Text: "currency: EUR\n",
		},
		decisions.KindFreeze: decisions.Freeze{
			From: programtest.FleetStart, To: programtest.FleetStart.Add(time.Hour),
			PriceBook: sum, Copy: document,
		},
		decisions.KindInvoice: decisions.Invoice{
			Number: "2026-03-team-a-r0", Kind: decisions.InvoiceKind, Tenant: "team-a", Period: "2026-03", TimeZone: "UTC",
			From: programtest.FleetStart,
			To:   programtest.FleetStart.AddDate(0, 1, 0), Currency: "EUR", Total: "1.00", GPUHours: "1", PriceBook: sum,
			Content: document, Usage: document, Epoch: 1,
		},
		decisions.KindApproval: decisions.Approval{},
		decisions.KindMapping:  decisions.Mapping{Epoch: 1 << 30, SHA256: sum, Effective: programtest.FleetStart},
		decisions.KindPolicy:   decisions.Policy{},
		decisions.KindAudit:    decisions.Audit{},
		decisions.KindFinding: decisions.Finding{
			Action: decisions.FindingMute, Target: decisions.Target{Tenant: "team-a"}, Owner: "eve", Reason: "r",
			Until: programtest.FleetStart,
		},
	} {
		text, err := json.Marshal(body)
		if err != nil {
			a.t.Fatal(err)
		}
		a.sound = append(a.sound, decisions.Record{
			Format: decisions.Format, Kind: kind, ID: "i", Key: "k", Request: sum, Who: "eve", At: programtest.FleetStart,
			Body: text,
		})
	}
	slices.SortStableFunc(a.sound, func(x,
		y decisions.Record,
	) int {
		return strings.Compare(string(x.Kind), string(y.Kind))
	})
}

// hostileDecision is a record that the fold refuses, on top of what is decided.
func (a *assault) hostileDecision(g *hostiletest.Generator) (key, value []byte) {
	for {
		r := a.sound[g.Below(len(a.sound))]
		r.ID, r.Key = fmt.Sprint(g.Below(1<<40)), fmt.Sprint("k", g.Below(1<<40))
		g.AlterRecord(&r)
		value, err := json.Marshal(&r)
		if err != nil {
			continue // not even JSON
		}
		value = g.MayDamage(value)
		key := []byte(r.Kind)
		if g.Below(10) == 0 {
			key = g.Key()
		}
		state := decisions.NewState()
		for i, m := range a.before {
			state.Apply(int64(i), m.Time, m.Key, m.Value)
		}
		if !state.Apply(state.Next(), clock.Real().Now(), key, value).Accepted {
			return key, value
		}
	}
}

func (a *assault) sendDecisions(ctx context.Context, g *hostiletest.Generator) error {
	var msgs []broker.Message
	for range 3 {
		key, value := a.hostileDecision(g)
		msgs = append(msgs, broker.Message{Topic: broker.TopicDecisions, Key: key, Value: value})
		a.ours(value)
		a.count("decisions")
	}
	if err := a.client.Producer().Produce(ctx, msgs); err != nil {
		return fmt.Errorf("produce decisions: %w", err)
	}
	return nil
}

func (a *assault) ours(value []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent[sha256.Sum256(value)] = true
}

// decided is what the decisions' topic holds.
func (a *assault) decided() (msgs []broker.Message) {
	bounds, err := a.client.Bounds(a.t.Context(), broker.TopicDecisions)
	if err != nil {
		a.t.Fatal(err)
	}
	reader := a.client.Reader(broker.TopicDecisions, 0, 0, bounds[0].Last, broker.ConsumerOptions{})
	defer reader.Close()
	for len(msgs) == 0 || msgs[len(msgs)-1].Offset+1 < bounds[0].Last {
		more, err := reader.Read(a.t.Context(), 1000)
		if err != nil || len(more) == 0 {
			a.t.Fatalf("read decisions: %d of %d, %v", len(msgs), bounds[0].Last, err)
		}
		msgs = append(msgs, more...)
	}
	return msgs
}

// wantRefused: of all that lies in the decisions' topic now, none of ours counts.
func (a *assault) wantRefused() {
	state, found := decisions.NewState(), 0
	for i, m := range a.decided() {
		out := state.Apply(int64(i), m.Time, m.Key, m.Value)
		if !a.sent[sha256.Sum256(m.Value)] {
			continue
		}
		if found++; out.Accepted {
			a.t.Errorf("the hostile decision at offset %d was accepted: %.300q", m.Offset, m.Value)
		}
	}
	if found == 0 {
		a.t.Error("none of the hostile decisions is in the topic")
	}
}

// tellMetrics logs which counters rose: a hostile sender is seen in them.
func (a *assault) tellMetrics() {
	_, text := programtest.Fetch(a.t, "http://"+a.run.HTTPAddress+"/metrics")
	reasons := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, counter := range []string{
			"_dead_letters_total", "_findings_total", "_refused_total", "_folded_total",
			"_late_unprocessed_total", "_unknown_fields_total",
		} {
			if base, _, _ := strings.Cut(name, "{"); strings.HasSuffix(base, counter) && value != "0" {
				a.t.Log(name, value)
				if counter == "_dead_letters_total" {
					reasons++
				}
			}
		}
	}
	if reasons < 4 {
		a.t.Errorf("dead letters have %d reasons: the generator tries too little", reasons)
	}
}

func hostileSeed(t *testing.T) uint64 {
	t.Helper()
	seed := fromEnv(t, seedEnv, uint64(clock.Real().Now().UnixNano()))
	t.Logf("%s=%d", seedEnv, seed)
	return seed
}
