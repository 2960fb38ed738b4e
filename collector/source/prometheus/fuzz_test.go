package prometheus

import (
	"bytes"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/costtest"
)

// FuzzAnswer: any answer is read or refused, in time and memory that grow with its
// length alone.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-1"},"values":[[1700000000.5,"1"]]}]}}`))
	f.Add([]byte(`{"data":{"result":[{"values":[[[[[[]]`))
	f.Add([]byte(`{"data":{"result":[{"metric":{"__name__":"DCGM_FI_DEV_FB_USED_BYTES","job":"","instance":":::"},"values":[[1e308,"NaN"],[-1,"1"]]}]}}`))
	from := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, text []byte) {
		costtest.Within(t, costtest.Time, 8<<20+uint64(len(text))*1000, func() {
			got, err := matrixOf(bytes.NewReader(text))
			if err != nil {
				return
			}
			w := newWindow(from, from.Add(time.Minute), got.series)
			seen, _ := w.slot(from.Add(time.Minute).UnixMilli())
			for _, e := range seen {
				e.exposition(false)
			}
			w.interval()
		})
	})
}
