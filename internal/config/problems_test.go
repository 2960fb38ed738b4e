package config

import (
	"strings"
	"testing"
	"time"
)

func TestProblemsNameEveryWrongValue(t *testing.T) {
	var p Problems
	p.Want(true, "never")
	p.OneOf("mode", "a", "a", "b")
	p.Add(nil)
	Positive(&p, "timeout", time.Second)
	if err := p.Err(); err != nil {
		t.Errorf("nothing is wrong, got %v", err)
	}
	p.Want(false, "slots %d: must be %d", 3, 4)
	p.OneOf("mode", "x", "a", "b", "c")
	Positive(&p, "timeout", -time.Second)
	Positive(&p, "most", 0)
	want := "slots 3: must be 4\nmode \"x\": must be \"a\", \"b\" or \"c\"\ntimeout -1s: must be positive\nmost 0: " +
		"must be positive"
	if err := p.Err(); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestHTTPURL(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h:1/x": "", "https://h": "", "ftp://u:secret@h": "scheme", "http://": "has no host",
		"https://u:secret@a b\x7f": "is not a URL",
		"u:secret@h":               "scheme", "https:/u:secret@h": "has no host", "https://u:secr%zz@secret@h": "is not a URL",
	} {
		_, err := HTTPURL(raw)
		if got := err == nil; got != (want == "") || err != nil &&
			(!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: got %v, want %q", raw, err, want)
		}
		if strings.Contains(Redacted(raw), "secret") {
			t.Errorf("%q is shown as %q", raw, Redacted(raw))
		}
	}
}
