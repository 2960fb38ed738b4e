package decisions

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkRead reads one tenant's usage copy, of 1.7 MB, out of a month of thirty.
func BenchmarkRead(b *testing.B) {
	l := open(b, embeddedBroker(b).addr)
	var documents []Document
	for tenant := range 30 {
		var text strings.Builder
		for row := 0; text.Len() < 1_700_000; row++ {
			fmt.Fprintf(&text, "[\"usage\",\"2026-10-%02dT%02d:00:00Z\",\"project-%d\",\"NVIDIA H100\",\"\",0,7,\"active\",%d,%d]\n",
				1+row/24%31, row%24, row%3, (row*7919+tenant)%25_200_000, (row*104_729+tenant)%900_000)
		}
		documents = append(documents, put(b, l, []byte(text.String())))
	}
	b.ReportAllocs()
	b.SetBytes(documents[0].Bytes)
	for i := 0; b.Loop(); i++ {
		if _, err := l.Read(b.Context(), documents[i%len(documents)]); err != nil {
			b.Fatal(err)
		}
	}
}
