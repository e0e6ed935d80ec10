package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// shard is a part of work that several processes share: --shard K/N, from 1. It is a flag's value.
type shard struct{ k, n int } // the zero value is all of it

func (s *shard) String() string {
	if s.n == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.k, s.n)
}

// Set implements pflag.Value.
func (s *shard) Set(text string) error {
	k, n, ok := strings.Cut(text, "/")
	var kerr, nerr error
	s.k, kerr = strconv.Atoi(k)
	s.n, nerr = strconv.Atoi(n)
	if !ok || kerr != nil || nerr != nil || s.k < 1 || s.k > s.n {
		return fmt.Errorf("want K/N, the K-th of N parts, with K from 1 to N")
	}
	return nil
}

// Type implements pflag.Value.
func (s *shard) Type() string { return "K/N" }

// has reports whether the i-th thing is in this part: every N-th is.
func (s shard) has(i int) bool { return s.n == 0 || i%s.n == s.k-1 }
