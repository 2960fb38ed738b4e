package broker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/gputally/gputally/internal/clock"
)

// watchInterval is how often a group's leader counts the topic's partitions. The
// transport asks the brokers less often.
const watchInterval = 500 * time.Millisecond

// dealt is how many of the topic's partitions the group's leader had to assign.
// kafka-go v0.4.51 has a watcher of its own (consumergroup.go,
// partitionWatcher), but that counts for the first time after the assignment: a
// topic that appears, or grows, in between stays unread for as long as the
// generation lasts, and until there is a topic each generation ends at once.
type dealt struct {
	topic string
	count atomic.Int64
}

const notLeader = -1

// balancer is one of kafka-go's that notes what it was given to assign.
type balancer struct {
	kafka.GroupBalancer
	dealt *dealt
}

// balancers are kafka-go's defaults, in its order, so that members of all
// versions agree on one.
func (d *dealt) balancers() []kafka.GroupBalancer {
	return []kafka.GroupBalancer{
		balancer{kafka.RangeGroupBalancer{}, d},
		balancer{kafka.RoundRobinGroupBalancer{}, d},
	}
}

// UserData is asked for as a member begins to join.
func (b balancer) UserData() ([]byte, error) {
	b.dealt.count.Store(notLeader)
	return b.GroupBalancer.UserData()
}

// AssignGroups is asked of the leader alone.
func (b balancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	n := int64(0)
	for _, p := range partitions {
		if p.Topic == b.dealt.topic {
			n++
		}
	}
	b.dealt.count.Store(n)
	return b.GroupBalancer.AssignGroups(members, partitions)
}

// watch returns, which ends the generation, when the topic has another number of
// partitions than the leader assigned.
func (c *Consumer) watch(ctx context.Context, dealt int64) {
	for clock.Sleep(ctx, c.client.clock, watchInterval) == nil {
		n, err := c.client.partitionCount(ctx, c.topic)
		if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
			continue // the fetchers say what is wrong
		}
		if int64(n) != dealt {
			c.client.log.Info("topic has other partitions, joining the group anew",
				"group", c.group, "topic", c.topic, "partitions", n, "assigned", dealt)
			return
		}
	}
}
