package collector

import "time"

// backoff is a pause that doubles from retry_min to retry_max.
type backoff struct{ wait, limit time.Duration }

func (c *Collector) newBackoff() *backoff {
	return &backoff{wait: c.cfg.RetryMin, limit: c.cfg.RetryMax}
}

func (b *backoff) next() time.Duration {
	wait := b.wait
	b.wait = min(2*wait, b.limit)
	return wait
}
