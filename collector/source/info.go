package source

// Info are the versions and boards of a node, for display and metrics; it affects nothing else. Unknown fields are
// empty.
type Info struct {
	Driver string // version of the kernel driver
	CUDA   string // version of CUDA that the driver supports
	DCGM   string // version of the hostengine
	NVML   string // version of the library
	GPUs   map[string]GPUInfo
}

// GPUInfo is a board, by UUID.
type GPUInfo struct {
	VBIOS, Serial, PCIBusID string
	Minor                   *uint32 // N of /dev/nvidiaN
}

// Informer is a Source with an Info. Info may be called at any time, concurrently with Read.
type Informer interface{ Info() Info }

// Committer is a Source whose batches contain movements since the previous ones, such as energy. Commit is called
// when the batches of the last Read are spooled; movements of batches that are never spooled are part of the next
// reading.
type Committer interface{ Commit() }

// Watcher is a Source whose GPUs may change within a slot, for example when MIG is reconfigured. Watch is called
// about once a second between readings, never concurrently with Read.
type Watcher interface{ Watch() }
