package meter

// FatalXIDs are the errors of NVIDIA's driver after which a GPU needs a reset and that a user's program can't cause, as
// configured where nothing else is: 62 and 64 (page retirement, row remapping), 79 (off the bus), 95 (uncontained ECC
// error), 119 and 120 (the GPU's own processor).
func FatalXIDs() []int64 { return []int64{62, 64, 79, 95, 119, 120} }
