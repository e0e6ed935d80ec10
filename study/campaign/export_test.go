package campaign

// ParseUnit reads a unit, and says of how many indices its first chunk is.
func ParseUnit(text string) (first int, err error) {
	u, err := parseUnit([]byte(text))
	if err != nil {
		return 0, err
	}
	return u.next(u.Lo) - u.Lo, nil
}

// Made is how many rows w has made.
func (w *Worker) Made() int { return int(w.made.Load()) }
