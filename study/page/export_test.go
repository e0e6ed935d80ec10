package page

// Fold is fold, and then as Run does.
func Fold(r *Run, most int) {
	fold(r, most)
	layOut(r.Lanes)
}
