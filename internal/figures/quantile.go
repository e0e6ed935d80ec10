package figures

import "slices"

// Quantile is the value that a share q of all does not exceed, between two neighbours in proportion. There is
// at least one.
func Quantile(all []float64, q float64) float64 {
	all = slices.Sorted(slices.Values(all))
	at := q * float64(len(all)-1)
	i := int(at)
	return all[i] + (at-float64(i))*(all[min(i+1, len(all)-1)]-all[i])
}
