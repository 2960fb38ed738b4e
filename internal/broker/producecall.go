package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// produceCall is one partition's share of a Produce call. Calls for different
// partitions touch different entries of msgs and errs.
type produceCall struct {
	producer *Producer
	target   topicPartition
	at       time.Time
	msgs     []Message
	errs     []error
}

// sendAll sends the messages of the given indexes in order, in requests within
// the configured bounds.
func (p *produceCall) sendAll(ctx context.Context, indexes []int) {
	config := &p.producer.client.config
	for len(indexes) > 0 {
		n, size := 0, 0
		for n < len(indexes) && n < config.BatchMessages {
			size += p.msgs[indexes[n]].sizeBytes()
			if n > 0 && size > config.BatchBytes {
				break
			}
			n++
		}
		p.send(ctx, indexes[:n])
		indexes = indexes[n:]
	}
}

// send tries one request until it is acknowledged, refused, or ctx ends. A
// refused request is halved until the message to blame stands alone.
func (p *produceCall) send(ctx context.Context, indexes []int) {
	c := p.producer.client
	var cause error
	for attempt := 0; ; attempt++ {
		err := p.request(ctx, indexes)
		if err == nil {
			return
		}
		if refused(err) {
			if len(indexes) > 1 {
				p.send(ctx, indexes[:len(indexes)/2])
				p.send(ctx, indexes[len(indexes)/2:])
				return
			}
			p.fail(indexes, fmt.Errorf("broker says %w: %w", err, ErrRefused))
			return
		}
		if attempt > 0 || ctx.Err() == nil {
			c.metrics.retries.WithLabelValues(p.target.topic).Inc()
		}
		if cause == nil || ctx.Err() == nil {
			cause = err // ctx's end in the midst of an attempt explains nothing
		}
		err = c.pause(ctx, attempt, "produce", cause, "topic", p.target.topic, "partition", p.target.partition)
		if err != nil {
			p.fail(indexes, err)
			return
		}
	}
}

func (p *produceCall) fail(indexes []int, err error) {
	for _, i := range indexes {
		p.errs[i] = err
	}
}

func (p *produceCall) request(ctx context.Context, indexes []int) error {
	c := p.producer.client
	ctx, cancel := c.request(ctx)
	defer cancel()
	records := make([]kafka.Record, len(indexes))
	for n, i := range indexes {
		records[n] = p.record(&p.msgs[i])
	}
	res, err := c.kafka.Produce(ctx, &kafka.ProduceRequest{
		Topic:        p.target.topic,
		Partition:    p.target.partition,
		RequiredAcks: kafka.RequireAll,
		Compression:  kafka.Zstd,
		Records:      kafka.NewRecordReader(records...),
	})
	if err != nil {
		return err
	}
	if res.Error != nil {
		return res.Error
	}
	bytes := 0
	for n, i := range indexes {
		m := &p.msgs[i]
		m.Offset, m.Time = res.BaseOffset+int64(n), p.at
		if !res.LogAppendTime.IsZero() {
			m.Time = res.LogAppendTime
		}
		bytes += m.sizeBytes()
	}
	c.metrics.produced.WithLabelValues(p.target.topic).Add(float64(len(indexes)))
	c.metrics.producedBytes.WithLabelValues(p.target.topic).Add(float64(bytes))
	return nil
}

// record gives every message of a call the same time, so that the embedded
// broker's stamp on the batch holds for each of them.
func (p *produceCall) record(m *Message) kafka.Record {
	r := kafka.Record{Time: p.at}
	if m.Key != nil {
		r.Key = kafka.NewBytes(m.Key)
	}
	if m.Value != nil {
		r.Value = kafka.NewBytes(m.Value)
	}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

// refused tells the errors that sending again can't cure. Everything else is
// tried again, also what kafka-go calls permanent: a full disk of the embedded
// broker arrives as UNKNOWN_SERVER_ERROR.
func refused(err error) bool {
	for _, code := range []kafka.Error{
		kafka.MessageSizeTooLarge,
		kafka.RecordListTooLarge,
		kafka.InvalidMessageSize,
		kafka.InvalidTopic,
		kafka.InvalidTimestamp,
		kafka.UnsupportedForMessageFormat,
		kafka.InvalidRecord,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
