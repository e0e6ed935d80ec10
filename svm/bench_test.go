package svm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/svm"
)

// BenchmarkLend is what a launch costs beside itself on a device that uses the
// host's memory: rights to what it names, given and taken. Memory that was never
// touched has no pages whose rights change; so all is touched before.
func BenchmarkLend(b *testing.B) {
	for _, trusted := range []bool{false, true} {
		benchmarkLend(b, trusted)
	}
}

func benchmarkLend(b *testing.B, trusted bool) {
	for _, size := range []uint64{4 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("%s/trusted=%t", mem.FormatBytes(size), trusted), func(b *testing.B) {
			a, err := svm.New(svm.Options{Size: 1 << 30, Trusted: trusted})
			require.NoError(b, err)
			defer func() { require.NoError(b, a.Close()) }()
			p, err := a.Alloc(size, 0, 0, "")
			require.NoError(b, err)
			require.NoError(b, a.Lend(uint64(p), size))
			user, err := a.User(p, size)
			require.NoError(b, err)
			for i := 0; i < len(user); i += 4096 {
				user[i] = 1
			}
			a.Return(uint64(p), size)
			b.ReportAllocs()
			for b.Loop() {
				if a.Lend(uint64(p), size) != nil {
					b.Fatal("refused")
				}
				a.Return(uint64(p), size)
			}
		})
	}
}
