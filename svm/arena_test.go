package svm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/svm"
)

func arena(t testing.TB, size uint64) *svm.Arena {
	t.Helper()
	a, err := svm.New(svm.Options{Name: "test", Size: size})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, a.Check())
		require.NoError(t, a.Close())
		require.ErrorIs(t, a.Close(), mem.ErrClosed)
	})
	return a
}

func alloc(t testing.TB, a *svm.Arena, size uint64, f svm.Flags, name string) svm.Pointer {
	t.Helper()
	p, err := a.Alloc(size, 0, f, name)
	require.NoError(t, err)
	return p
}

// grant maps and grants.
func grant(t testing.TB, a *svm.Arena, p svm.Pointer, size uint64, f svm.MapFlags) *svm.Map {
	t.Helper()
	m, err := a.Map(p, size, f)
	require.NoError(t, err)
	require.NoError(t, m.Grant())
	return m
}

func TestBothViewsShowTheSameBytes(t *testing.T) {
	a := arena(t, 1<<20)
	p := alloc(t, a, 10000, 0, "x")
	drivers, err := a.Bytes(p, 10000)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 10000), drivers)
	drivers[5000] = 42
	m := grant(t, a, p, 10000, svm.MapRead|svm.MapWrite)
	user, err := a.User(p, 10000)
	require.NoError(t, err)
	require.Equal(t, byte(42), user[5000])
	user[9999] = 43
	require.Equal(t, byte(43), drivers[9999])
	require.NoError(t, m.Drop("me"))
	at, ok := a.PointerTo(user[100:])
	require.True(t, ok)
	require.Equal(t, p+100, at)
	_, ok = a.PointerTo(drivers)
	require.False(t, ok)
}

func TestATouchOutsideAMapIsAnErrorThatSaysWhy(t *testing.T) {
	a := arena(t, 1<<20)
	p := alloc(t, a, 3*4096, 0, "cells")
	user, err := a.User(p, 3*4096)
	require.NoError(t, err)
	var got byte
	read := func(i int) func() { return func() { got = user[i] } }
	write := func(i int) func() { return func() { user[i] = 9 } }
	fault := func(f func(), addr svm.Pointer, says string) {
		t.Helper()
		err := a.Guard(f)
		require.ErrorIs(t, err, svm.ErrFault)
		require.Equal(t, mem.InvalidOperation, mem.StatusOf(err))
		var at *svm.Fault
		require.ErrorAs(t, err, &at)
		require.Equal(t, addr, at.Addr)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "cells")
		require.Equal(t, at.Why, a.Explain(addr))
	}
	fault(read(5), p+5, "byte 5 of svm block cells")
	m, err := a.Map(p+4096, 4096, svm.MapRead)
	require.NoError(t, err)
	fault(read(4096), p+4096, "to be mapped, but the map has not ended")
	require.NoError(t, m.Grant())
	require.NoError(t, a.Guard(read(4096)))
	require.Zero(t, got)
	fault(write(4100), p+4100, "mapped for reading only")
	fault(read(8192), p+8192, "which is not mapped")
	require.NoError(t, m.Drop("the unmap of step 3"))
	fault(read(4096), p+4096, "was unmapped by the unmap of step 3")
	err = a.Free(p, "Release in main")
	require.NoError(t, err)
	fault(write(4), p+4, "was freed by Release in main")

	require.PanicsWithValue(t, "mine", func() { _ = a.Guard(func() { panic("mine") }) })
	require.Contains(t, a.Explain(1), "no address of arena test")
	q := alloc(t, a, 10, svm.FineGrain, "fine")
	require.Contains(t, a.Explain(q), "fine-grained")
	require.Contains(t, a.Explain(q+10), "0 bytes past the end of svm block fine")
	user, err = a.User(q, 10)
	require.NoError(t, err)
	require.NoError(t, a.Guard(func() { user[3] = 1 }))
}

func TestRightsOfAPageAreThoseOfAllItsMaps(t *testing.T) {
	a := arena(t, 1<<20)
	p := alloc(t, a, 2*4096, 0, "x")
	user, err := a.User(p, 2*4096)
	require.NoError(t, err)
	can := func(i int, write bool) bool {
		return a.Guard(func() {
			if v := user[i]; write {
				user[i] = v + 1
			}
		}) == nil
	}
	r := grant(t, a, p, 100, svm.MapRead)
	w := grant(t, a, p+200, 4096, svm.MapWrite)
	require.True(t, can(0, true), "the page is shared with a map for writing")
	require.True(t, can(4200, true))
	require.NoError(t, w.Drop("w"))
	require.True(t, can(0, false))
	require.False(t, can(0, true))
	require.False(t, can(4200, false))
	require.NoError(t, r.Drop("r"))
	require.False(t, can(0, false))

	// Dropped before it is granted: never granted.
	m, err := a.Map(p, 1, svm.MapRead)
	require.NoError(t, err)
	require.NoError(t, m.Drop("m"))
	require.NoError(t, m.Grant())
	require.False(t, can(0, false))

	require.NoError(t, m.Drop("m"), "again")
}

func TestFreedAddressesRestAndTheirMemoryIsZeroAgain(t *testing.T) {
	a := arena(t, 16*4096)
	p := alloc(t, a, 4096, 0, "old")
	b, err := a.Bytes(p, 4096)
	require.NoError(t, err)
	b[0] = 1
	err = a.Free(p, "me")
	require.NoError(t, err)
	require.Equal(t, byte(1), b[0], "commands may still use it")
	require.NoError(t, a.Recycle(p))
	require.ErrorIs(t, a.Recycle(p), mem.ErrInvalidOperation)
	q := alloc(t, a, 4096, 0, "new")
	require.NotEqual(t, p, q)
	_, err = a.Lookup(p)
	require.ErrorIs(t, err, svm.ErrFreed)
	require.ErrorContains(t, err, "old")
	// Where there is no other room, resting addresses wake.
	for range 14 {
		alloc(t, a, 4096, 0, "fill")
	}
	again := alloc(t, a, 4096, 0, "again")
	require.Equal(t, p, again)
	b, err = a.Bytes(again, 4096)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 4096), b)
	_, err = a.Alloc(1, 0, 0, "")
	require.ErrorIs(t, err, mem.ErrNoHostMemory)
}

// An arena and its table remember the same frees, and not any number of them.
func TestAFreeIsForgottenAfterManyOthers(t *testing.T) {
	var table *svm.Table
	a, err := svm.New(svm.Options{Size: 1 << 26, Watch: func(t *svm.Table) (func(), error) {
		table = t
		return func() {}, nil
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	use := func() svm.Pointer {
		p := alloc(t, a, 8, 0, "block")
		err := a.Free(p, "me")
		require.NoError(t, err)
		require.NoError(t, a.Recycle(p))
		return p
	}
	first := use()
	second := use()
	for range 4095 {
		use()
	}
	require.Contains(t, table.Said(second), "freed")
	require.Equal(t, a.Explain(second), table.Said(second))
	require.NotContains(t, table.Said(first), "freed", "4,096 are remembered")
	require.Equal(t, a.Explain(first), table.Said(first))
}

func TestErrors(t *testing.T) {
	a := arena(t, 1<<20)
	p := alloc(t, a, 100, 0, "x")
	gone := alloc(t, a, 100, 0, "gone")
	err := a.Free(gone, "somebody")
	require.NoError(t, err)
	try := func(size, align uint64, f svm.Flags) error { _, err := a.Alloc(size, align, f, ""); return err }
	toMap := func(p svm.Pointer, size uint64, f svm.MapFlags) error { _, err := a.Map(p, size, f); return err }
	for name, c := range map[string]struct {
		got, want error
		says      string
	}{
		"no bytes":             {try(0, 0, 0), mem.ErrInvalidSize, "0 bytes"},
		"odd alignment":        {try(1, 24, 0), mem.ErrInvalidValue, "24"},
		"larger than all":      {try(2<<20, 0, 0), mem.ErrNoHostMemory, "arena test"},
		"unknown flag":         {try(1, 0, 1<<5), mem.ErrInvalidValue, "0x20"},
		"two accesses":         {try(1, 0, svm.ReadOnly|svm.WriteOnly), mem.ErrInvalidValue, "exclude"},
		"atomics alone":        {try(1, 0, svm.Atomics), mem.ErrInvalidValue, "fine grain"},
		"lookup of nothing":    {second(a.Lookup(p + 5000)), svm.ErrNotSVM, ""},
		"lookup past the end":  {second(a.Lookup(p + 100)), svm.ErrNotSVM, ""},
		"lookup of null":       {second(a.Lookup(0)), svm.ErrNotSVM, "0x0"},
		"lookup of freed":      {second(a.Lookup(gone + 7)), svm.ErrFreed, "freed by somebody"},
		"free inside":          {a.Free(p+4, "me"), mem.ErrInvalidValue, "inside svm block x"},
		"free twice":           {a.Free(gone, "me"), svm.ErrFreed, "somebody"},
		"bytes that leave":     {second(a.Bytes(p+50, 51)), mem.ErrInvalidValue, "leave svm block x"},
		"bytes that overflow":  {second(a.Bytes(p+50, ^uint64(0))), mem.ErrInvalidValue, "leave svm block x"},
		"user bytes of freed":  {second(a.User(gone, 1)), svm.ErrFreed, "somebody"},
		"map of nothing":       {toMap(p, 0, svm.MapRead), mem.ErrInvalidValue, "0 bytes"},
		"map that leaves":      {toMap(p+99, 2, svm.MapRead), mem.ErrInvalidValue, "x"},
		"map without flags":    {toMap(p, 1, 0), mem.ErrInvalidValue, "0x0"},
		"map with both":        {toMap(p, 1, svm.MapRead|svm.MapWriteInvalidate), mem.ErrInvalidValue, "excludes"},
		"map of freed":         {toMap(gone, 1, svm.MapRead), svm.ErrFreed, "somebody"},
		"recycle of no free":   {a.Recycle(p), mem.ErrInvalidOperation, ""},
		"an arena out of size": {second(svm.New(svm.Options{Size: 1 << 63})), mem.ErrInvalidSize, "too large"},
	} {
		require.ErrorIs(t, c.got, c.want, name)
		require.ErrorContains(t, c.got, c.says, name)
		require.Less(t, mem.StatusOf(c.got), mem.Success, name)
		require.NoError(t, a.Check(), name)
	}
}

func second[T any](_ T, err error) error { return err }

func TestLookupAllocatesNothing(t *testing.T) {
	a := arena(t, 1<<20)
	p := alloc(t, a, 10000, 0, "x")
	for range 20 {
		alloc(t, a, 10, 0, "y")
	}
	f := func() {
		b, err := a.Lookup(p + 777)
		if err != nil || b.Start != p {
			t.Fatal(b, err)
		}
	}
	f()
	require.Zero(t, testing.AllocsPerRun(100, f))
}
