package programtest

import (
	"testing"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/internal/broker"
	"github.com/gputally/gputally/internal/cli"
)

// Unread produces a message that isn't ingested and returns its PARTITION/OFFSET.
func Unread(t *testing.T, data string) string {
	t.Helper()
	msgs := []broker.Message{{Topic: broker.TopicSamples, Key: []byte("n1"), Value: []byte("\xff")}}
	WithLedger(t, data, func(p *app.Pipeline) {
		if err := p.Client.Producer().Produce(t.Context(), msgs); err != nil {
			t.Fatal(err)
		}
	})
	return (&cli.Place{Partition: msgs[0].Partition, Offset: msgs[0].Offset, Given: true}).String()
}
