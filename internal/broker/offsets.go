package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// NotCommitted is PartitionOffsets.Committed of a group that never committed.
const NotCommitted int64 = -1

// PartitionOffsets are a partition's offsets: [First, Last) can be read, and the group continues at Committed.
type PartitionOffsets struct {
	Partition int
	First     int64 // the oldest retained offset
	Last      int64 // the next offset to be written
	Committed int64 // the next offset the group will read, or NotCommitted
}

// Lag is the number of retained messages that the group has yet to read.
func (p PartitionOffsets) Lag() int64 {
	return p.Last - min(max(p.Committed, p.First), p.Last)
}

// Offsets returns first, last and committed offsets of every partition of topic, ascending by partition.
func (c *Client) Offsets(ctx context.Context, topic, group string) ([]PartitionOffsets, error) {
	bounds, err := c.Bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	committed, err := c.committed(ctx, topic, group, len(bounds))
	if err != nil {
		return nil, err
	}
	for i := range bounds {
		if offset, ok := committed[bounds[i].Partition]; ok {
			bounds[i].Committed = offset
		}
	}
	return bounds, nil
}

// Bounds returns first and last offsets of every partition of topic, ascending by partition; Committed is
// NotCommitted.
func (c *Client) Bounds(ctx context.Context, topic string) ([]PartitionOffsets, error) {
	n, err := c.partitionCount(ctx, topic)
	if err != nil {
		return nil, err
	}
	return c.bounds(ctx, topic, upTo(n)...)
}

// upTo returns the numbers 0 to n-1.
func upTo(n int) []int {
	out := make([]int, n)
	for p := range out {
		out[p] = p
	}
	return out
}

// bounds reads First and Last of the given partitions.
func (c *Client) bounds(ctx context.Context, topic string, partitions ...int) ([]PartitionOffsets, error) {
	var asked []kafka.OffsetRequest
	for _, p := range partitions {
		asked = append(asked, kafka.FirstOffsetOf(p), kafka.LastOffsetOf(p))
	}
	answers, err := c.listOffsets(ctx, topic, asked)
	if err != nil {
		return nil, err
	}
	if len(answers) != len(partitions) {
		return nil, fmt.Errorf("list offsets of topic %q: %d partitions answered, want %d", topic, len(answers),
			len(partitions))
	}
	out := make([]PartitionOffsets, 0, len(answers))
	for _, p := range answers {
		out = append(out, PartitionOffsets{
			Partition: p.Partition, First: p.FirstOffset, Last: p.LastOffset,
			Committed: NotCommitted,
		})
	}
	slices.SortFunc(out, func(a, b PartitionOffsets) int { return a.Partition - b.Partition })
	return out, nil
}

func (c *Client) listOffsets(ctx context.Context, topic string,
	asked []kafka.OffsetRequest,
) ([]kafka.PartitionOffsets, error) {
	ctx, cancel := c.request(ctx)
	defer cancel()
	res, err := c.kafka.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return nil, fmt.Errorf("list offsets of topic %q: %w", topic, err)
	}
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("list offsets of topic %q partition %d: %w", topic, p.Partition, p.Error)
		}
	}
	return res.Topics[topic], nil
}

// OffsetsAt returns, by partition, the offset of the first message appended at or after the instant; if there is
// none, the partition's end.
func (c *Client) OffsetsAt(ctx context.Context, topic string, at time.Time) (map[int]int64, error) {
	bounds, err := c.Bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(map[int]int64, len(bounds))
	var asked []kafka.OffsetRequest
	for _, b := range bounds {
		out[b.Partition] = b.Last
		asked = append(asked, kafka.TimeOffsetOf(b.Partition, at))
	}
	answers, err := c.listOffsets(ctx, topic, asked)
	if err != nil {
		return nil, fmt.Errorf("at %s: %w", at.UTC().Format(time.RFC3339), err)
	}
	for _, p := range answers {
		for offset := range p.Offsets {
			if offset >= 0 { // -1: no message is that late
				out[p.Partition] = offset
			}
		}
	}
	return out, nil
}

func (c *Client) committed(ctx context.Context, topic, group string, partitions int) (map[int]int64, error) {
	ctx, cancel := c.request(ctx)
	defer cancel()
	res, err := c.kafka.OffsetFetch(ctx,
		&kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: upTo(partitions)}})
	if err == nil {
		err = res.Error
	}
	if errors.Is(err, kafka.GroupIdNotFound) {
		return nil, nil // the embedded broker's answer for a group that never committed
	}
	if err != nil {
		return nil, fmt.Errorf("fetch committed offsets of group %q: %w", group, err)
	}
	out := map[int]int64{}
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("fetch committed offset of group %q topic %q partition %d: %w", group, topic,
				p.Partition, p.Error)
		}
		if p.CommittedOffset >= 0 {
			out[p.Partition] = p.CommittedOffset
		}
	}
	return out, nil
}

// MoveGroup commits offsets, by partition of the topic, for a group without members. If the group has members, the
// error is ErrGroupInUse.
func (c *Client) MoveGroup(ctx context.Context, group, topic string, partition int, offset int64) error {
	ctx, cancel := c.request(ctx)
	defer cancel()
	res, err := c.kafka.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: partition, Offset: offset}}},
	})
	if err == nil && len(res.Topics[topic]) != 1 {
		err = errors.New("the broker's answer doesn't contain the partition")
	}
	if err == nil {
		err = res.Topics[topic][0].Error
	}
	for _, code := range []kafka.Error{kafka.UnknownMemberId, kafka.IllegalGeneration, kafka.RebalanceInProgress} {
		if errors.Is(err, code) {
			err = ErrGroupInUse
		}
	}
	if err != nil {
		return fmt.Errorf("move group %q to offset %d of topic %q partition %d: %w", group, offset, topic, partition, err)
	}
	return nil
}

// ErrGroupInUse means that the group has members, which commit offsets themselves.
var ErrGroupInUse = errors.New("the group has members")
