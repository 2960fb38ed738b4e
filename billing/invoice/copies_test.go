package invoice

import (
	"bytes"
	"fmt"
	"testing"
)

// Copies written in turns come out as they went in, whatever is packed when.
func TestCopiesComeOutAsTheyWentIn(t *testing.T) {
	kept, err := newCopies()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*bytes.Buffer{"a": {}, "b": {}, "empty": {}}
	for tenant := range want {
		kept.tenant(tenant)
	}
	for i := range 20_000 {
		tenant := []string{"a", "b", "a"}[i%3]
		line := fmt.Appendf(nil, "[%d,%q]\n", i*i, tenant)
		want[tenant].Write(line)
		if n, err := kept.of[tenant].Write(line); n != len(line) || err != nil {
			t.Fatalf("write = %d, %v", n, err)
		}
	}
	whole := make([]byte, 3*packBytes) // at once
	want["a"].Write(whole)
	_, _ = kept.of["a"].Write(whole)
	if packed := kept.of["a"].packed.Len(); packed > want["a"].Len()/2 {
		t.Errorf("%d bytes are packed to %d", want["a"].Len(), packed)
	}
	for tenant, text := range want {
		got, err := kept.text(tenant)
		if err != nil || !bytes.Equal(got, text.Bytes()) {
			t.Errorf("%s: %d bytes, %v; want the %d that were written", tenant, len(got), err, text.Len())
		}
	}
	if again, err := kept.text("a"); err != nil || !bytes.Equal(again, want["a"].Bytes()) {
		t.Errorf("read again: %d bytes, %v", len(again), err)
	}
	if _, err := kept.text("nobody"); err == nil {
		t.Error("a copy that nobody wrote was read")
	}
}
