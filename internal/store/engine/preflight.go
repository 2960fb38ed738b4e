package engine

import (
	"fmt"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
)

// preflight is the first query of clickhouse-go on every new HTTP connection. It decodes the answer at its own
// protocol version, and later answers at the revision in this one: 0, since the library writes Native at revision 0
// only.
const preflight = "SELECT displayName(), version(), revision(), timezone()"

func isPreflight(sql string) bool { return strings.TrimSpace(sql) == preflight }

func (e *Engine) answerPreflight(req *request, out *output) error {
	var (
		name, version, zone proto.ColStr
		revision            proto.ColUInt32
	)
	name.Append("gputally engine")
	version.Append(e.version)
	revision.Append(0)
	zone.Append("UTC")
	input := []proto.InputColumn{
		{Name: "displayName()", Data: &name},
		{Name: "version()", Data: &version},
		{Name: "revision()", Data: &revision},
		{Name: "timezone()", Data: &zone},
	}
	var buf proto.Buffer
	block := proto.Block{Info: proto.BlockInfo{BucketNum: -1}, Columns: len(input), Rows: 1}
	if err := block.EncodeBlock(&buf, req.revision, input); err != nil {
		return fmt.Errorf("encode preflight at protocol version %d: %w", req.revision, err)
	}
	return out.write(buf.Buf)
}
