package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gputally/gputally/internal/costtest"
)

// FuzzBody: any body is the value that encoding/json reads in it or an error,
// cheaply; what is accepted has each field once, and no other reader would take it
// for something else.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"period":"2026-10","tenant":"ml-train","who":"alice","require_approval":true}`))
	f.Add([]byte(`{"tenant":"a","tenant":"b"}`))
	f.Add([]byte(`{"tenant":{"a":[1,2,{}]}} `))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Add([]byte("{\"\\u0074enant\":null}\xff"))
	read := strictJSON().Unmarshal
	f.Fuzz(func(t *testing.T, body []byte) {
		costtest.Within(t, costtest.Time, 64<<20+4<<10*uint64(len(body)), func() {
			var got any
			if err := read(body, &got); err != nil {
				return
			}
			again, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkJSON(again); err != nil || !json.Valid(body) {
				t.Errorf("%q was accepted and is %q: %v", body, again, err)
			}
		})
	})
}
