package campaign

// ParseUnit reads a unit, and says of how many indices its first chunk is.
func ParseUnit(text string) (first int, err error) {
	u, err := parseUnit([]byte(text))
	return min(u.Lo+u.Chunk, u.Hi) - u.Lo, err
}
