package migration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/migration"
)

// A command's failure is told to who reads what it wrote, also by way of the round's first copy.
func TestACopyTellsOfTheFailureOfItsWriter(t *testing.T) {
	r, err := migration.PlanRound(mem.NewTopology("a", "b"), []migration.RoundBuffer{{Size: 64}}, []bool{true, true}, []migration.RoundCommand{
		{Queue: 0, Accesses: []mem.Access{use(mem.Write, 0, 0, 64, 1)}},
		{Queue: 1, Accesses: []mem.Access{use(mem.Read, 0, 0, 64, 2)}},
	})
	require.NoError(t, err)
	require.Equal(t, 1, r.Copies)
	require.Equal(t, []int{1}, r.Last)
}
