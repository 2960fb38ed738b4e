package wire

// Kinds of import runs under which operators send batches that no live collector measured.
const (
	SendsImport    = "import"
	SendsReplay    = "replay"
	SendsSimulated = "simulated"
	SendsFill      = "fill" // allocation records, for time that no collector reported (R18)
)

// Sends is the kind of run that a batch requires to be admitted; empty: it is live and needs none.
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
