package decisions

// NoCopy as the copy's folder means that there is none.
const NoCopy = "none"

// Config says where else the decisions are kept.
type Config struct {
	// CopyDir is a folder that the log is copied to as it grows; empty: one in the
	// data directory; NoCopy: none. Separate services have none unless it is named.
	CopyDir string `yaml:"copy_dir"`
}
