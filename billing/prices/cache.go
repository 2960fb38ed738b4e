package prices

import (
	"crypto/sha256"
	"sync"
)

// cacheBytes bounds the texts of a cache's books: some thousands of usual length; a parsed one is a few ten times
// larger.
const cacheBytes = 4 << 20

// Cache stores parsed books, which must not be modified, by name and text. It is safe for concurrent use, and its
// zero value is empty.
type Cache struct {
	mu     sync.Mutex
	parsed map[cacheKey]cached
	bytes  int
}

type cacheKey struct {
	name string
	text [sha256.Size]byte
}

type cached struct {
	book *Book
	err  error
}

// Parse is Parse of a text that may have been parsed before; errors are stored as well.
func (c *Cache) Parse(name, text string) (*Book, error) {
	key := cacheKey{name, sha256.Sum256([]byte(text))}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.parsed[key]; ok {
		return known.book, known.err
	}
	if c.bytes+len(text) > cacheBytes || c.parsed == nil {
		c.parsed, c.bytes = map[cacheKey]cached{}, 0
	}
	var made cached
	made.book, made.err = Parse(name, []byte(text))
	c.parsed[key] = made
	c.bytes += len(name) + len(text)
	return made.book, made.err
}
