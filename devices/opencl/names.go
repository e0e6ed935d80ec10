package opencl

import "godwit/internal/nvlink"

// LinkTrial is how a trial of links between devices went, and with which driver of the vendor's.
type LinkTrial = nvlink.Driver
