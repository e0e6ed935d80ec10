package migration_test

import (
	"fmt"

	"godwit/mem"
	"godwit/migration"
)

// One command, from its accesses to its commit, as a runtime does it.
func ExamplePlanner() {
	topo := mem.NewTopology("gpu0", "gpu1")
	p := migration.New(topo, migration.Options{})
	id, _ := p.Create(1024, mem.SetOf(mem.Host))
	queue, copies := mem.NewTimeline("queue", true, nil), mem.NewTimeline("copies", false, nil)

	var plan migration.Plan
	err := p.Plan(&plan, []mem.Access{{Buffer: id, Range: mem.Range{Start: 256, End: 512}, Mode: mem.ReadWrite, Memory: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range plan.Storage { // allocate, then:
		_ = p.Stored(w, mem.Plain)
	}
	for i := range plan.Steps { // submit to a hidden queue, then:
		p.CommitStep(&plan, i, copies.Next())
		fmt.Println(p.Explain(&plan.Steps[i]))
	}
	version := p.Commit(&plan, queue.Next()) // once the command is submitted
	fmt.Println("version", version)

	segments, _ := p.Segments(id)
	for _, s := range segments {
		fmt.Println(s.Range, "version", s.Version, "on", s.Valid)
	}
	// Output:
	// gpu1 lacks version 1 of [256,512), fresh on host; from host directly: the only copy
	// version 2
	// [0,256) version 1 on {0}
	// [256,512) version 2 on {2}
	// [512,1024) version 1 on {0}
}
