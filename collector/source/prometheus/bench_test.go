package prometheus

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkDecode is an hour of 100 series at 10 s.
func BenchmarkDecode(b *testing.B) {
	var values []string
	for i := range 360 {
		values = append(values, fmt.Sprintf(`[%d.123,"%d.5"]`, 1_700_000_000+10*i, i))
	}
	one := `{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-h","Hostname":"n1"},"values":[` + strings.Join(values, ",") + `]}`
	text := []byte(`{"status":"success","data":{"resultType":"matrix","result":[` + strings.Repeat(one+",", 99) + one + `]}}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if got, err := matrixOf(bytes.NewReader(text)); err != nil || len(got.series[99].Values) != 360 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/36000, "ns/sample")
}
