package store_test

import (
	"io"
	"testing"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
)

// answerHello is the answer to clickhouse-go's preflight, at its own version.
func answerHello(t *testing.T, w io.Writer) {
	t.Helper()
	var name, version, zone proto.ColStr
	name.Append("fake")
	version.Append("26.7.2.1")
	zone.Append("UTC")
	in := []proto.InputColumn{
		{Name: "displayName()", Data: name},
		{Name: "version()", Data: version},
		{Name: "revision()", Data: proto.ColUInt32{0}},
		{Name: "timezone()", Data: zone},
	}
	var buf proto.Buffer
	block := proto.Block{Info: proto.BlockInfo{BucketNum: -1}, Columns: len(in), Rows: 1}
	if err := block.EncodeBlock(&buf, clickhouse.ClientTCPProtocolVersion, in); err != nil {
		t.Error(err)
	}
	writeCompressed(t, w, buf.Buf)
}

// writeBlock is an answer at revision 0.
func writeBlock(t *testing.T, w io.Writer, in ...proto.InputColumn) {
	t.Helper()
	var buf proto.Buffer
	block := proto.Block{Columns: len(in), Rows: in[0].Data.Rows()}
	if err := block.EncodeRawBlock(&buf, 0, in); err != nil {
		t.Error(err)
	}
	writeCompressed(t, w, buf.Buf)
}

func writeCompressed(t *testing.T, w io.Writer, data []byte) {
	t.Helper()
	c := compress.NewWriter(compress.LevelZero, compress.LZ4)
	if err := c.Compress(data); err != nil {
		t.Error(err)
	}
	_, _ = w.Write(c.Data)
}
