package source

// Info is what a node's stack says of itself, for people and metrics; it decides
// nothing. What isn't known is empty.
type Info struct {
	Driver string // version of the kernel driver
	CUDA   string // version of CUDA that the driver supports
	DCGM   string // version of the hostengine
	NVML   string // version of the library
	GPUs   map[string]GPUInfo
}

// GPUInfo is a board's, by UUID.
type GPUInfo struct {
	VBIOS, Serial, PCIBusID string
	Minor                   *uint32 // N of /dev/nvidiaN
}

// Informer is a Source that knows its node's stack. Info may be called at any
// time, concurrently with Read.
type Informer interface{ Info() Info }

// Committer is a Source whose batches tell movements since the ones before, such
// as energy. Commit is called when the batches of the last Read are spooled; of
// those that never are, the next reading tells the movement, too.
type Committer interface{ Commit() }

// Watcher is a Source whose GPUs may change within a slot, by a reconfiguration
// of MIG for instance. Watch is called about once a second between readings,
// never concurrently with Read.
type Watcher interface{ Watch() }
