package scenario

import (
	"fmt"

	"godwit/mem"
	"godwit/migration/oracle"
)

// lowerBound asks the oracle how many bytes had to move for the scenario's
// commands, as the runtime recorded what they access.
func (r *runner) lowerBound() (uint64, error) {
	unit := uint64(0) // the largest that divides every size and range end
	for _, b := range r.s.Buffers {
		unit = gcd(unit, b.Size)
	}
	for i := range r.events {
		if rec := r.recorded(i); rec != nil {
			for _, a := range rec.Accesses {
				unit = gcd(gcd(unit, a.Range.Start), a.Range.End)
			}
		}
	}
	o := oracle.New(r.ctx.Topology(), unit)
	for i, b := range r.s.Buffers {
		var valid mem.MemorySet
		if b.Data != nil {
			valid = mem.SetOf(mem.Host)
		}
		if err := o.Create(r.buffers[i].ID(), b.Size, valid); err != nil {
			return 0, err
		}
	}
	var total uint64
	for i := range r.events {
		rec := r.recorded(i)
		if rec == nil || len(rec.Accesses) == 0 {
			continue
		}
		res, err := o.Enqueue(rec.Accesses)
		if err != nil {
			return 0, fmt.Errorf("lower bound, #%d: %w", i+1, err)
		}
		total += res.Bytes
		r.progress("lower bound", i+1, len(r.events))
	}
	return total, nil
}

// gcd is the greatest common divisor; that of 0 and b is b.
func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
