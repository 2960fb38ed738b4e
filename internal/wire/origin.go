package wire

// What a batch that no live collector measured is called in the runs under which
// operators send them.
const (
	SendsImport    = "import"
	SendsReplay    = "replay"
	SendsSimulated = "simulated"
	SendsFill      = "fill" // allocation records, for time of which no collector told anything (R18)
)

// Sends is what the run must send under which the batch is admitted; empty: the
// batch is live and needs none.
func Sends(b *Batch) string {
	switch {
	case b.Fill:
		return SendsFill
	case b.Origin == Origin_ORIGIN_LIVE || b.Origin == Origin_ORIGIN_UNSPECIFIED:
		return ""
	case b.Origin == Origin_ORIGIN_SIMULATED:
		return SendsSimulated
	case b.Origin == Origin_ORIGIN_REPLAY:
		return SendsReplay
	}
	return SendsImport
}
