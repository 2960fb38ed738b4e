package podresources

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gputally/gputally/internal/jsonstream"
)

// podPage is one page of a list of pods.
type podPage struct {
	next  string // continues the list; empty: the last page
	items []podItem
}

// decodePods decodes a PodList pod by pod, so that only one of them is in memory with its annotations and its spec,
// which tenants can make arbitrarily large. Only configured labels are kept.
func (c Config) decodePods(answer io.Reader) (page podPage, err error) {
	in := bufio.NewReader(answer)
	beginning, _ := in.Peek(80) // for an error: its own error will occur in the decoder, too
	if first := strings.TrimSpace(string(beginning)); first != "" && first[0] != '{' {
		return page, fmt.Errorf("answer is not a JSON object: %q", beginning)
	}
	d := jsonstream.New(in, jsonstream.Limits{Value: objectMaxBytes})
	var kind string
	err = d.Members(func(name string) error {
		switch name {
		case "kind":
			return d.Decode(&kind)
		case "metadata":
			var list struct {
				Continue string `json:"continue"`
			}
			err := d.Decode(&list)
			page.next = list.Continue
			return err
		case "items":
			return d.Elements(func() error {
				var p podItem
				if err := d.Decode(&p); err != nil {
					return fmt.Errorf("items[%d]: %w", len(page.items), err)
				}
				p.Metadata.Labels = c.configured(p.Metadata.Labels)
				page.items = append(page.items, p)
				return nil
			})
		}
		return d.Skip()
	})
	if err == nil {
		err = d.End()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err != nil:
		return podPage{}, fmt.Errorf("decode PodList: %w", err)
	case kind != "PodList":
		return podPage{}, fmt.Errorf("answer is of kind %q, want PodList", kind)
	}
	return page, nil
}
