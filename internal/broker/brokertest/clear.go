package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gputally/gputally/internal/clock"
)

// clear deletes all groups and topics except Kafka's own, and makes Kafka create the topic of the groups' offsets
// while there is only one broker to place it on.
func (c *Cluster) clear(ctx context.Context) error {
	client, err := dial(c.Addr())
	if err != nil {
		return err
	}
	defer client.Close()
	// A member that didn't leave keeps its group until its session times out; a broker that has just started has yet
	// to load its groups.
	for {
		err = errors.Join(findCoordinator(ctx, client), deleteGroups(ctx, client), deleteTopics(ctx, client))
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := clock.Sleep(ctx, clock.Real(), 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func findCoordinator(ctx context.Context, client *kgo.Client) error {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{"any"}
	res, err := req.RequestWith(ctx, client)
	if err == nil && len(res.Coordinators) > 0 {
		err = kerr.ErrorForCode(res.Coordinators[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("find group coordinator: %w", err)
	}
	return nil
}

func deleteGroups(ctx context.Context, client *kgo.Client) error {
	list, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(list.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	for _, g := range list.Groups {
		req.Groups = append(req.Groups, g.Group)
	}
	if len(req.Groups) == 0 {
		return nil
	}
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("delete groups %q: %w", req.Groups, err)
	}
	var errs []error
	for _, g := range res.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			errs = append(errs, fmt.Errorf("delete group %q: %w", g.Group, err))
		}
	}
	return errors.Join(errs...)
}

// deleteTopics fails while the broker still lists the topics.
func deleteTopics(ctx context.Context, client *kgo.Client) error {
	all, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, t := range all.Topics {
		if !strings.HasPrefix(*t.Topic, "__") {
			asked := kmsg.NewDeleteTopicsRequestTopic()
			asked.Topic = t.Topic
			req.Topics = append(req.Topics, asked)
			req.TopicNames = append(req.TopicNames, *t.Topic)
		}
	}
	if len(req.Topics) == 0 {
		return nil
	}
	if _, err := req.RequestWith(ctx, client); err != nil {
		return fmt.Errorf("delete topics %q: %w", req.TopicNames, err)
	}
	return fmt.Errorf("topics %q still exist", req.TopicNames)
}
