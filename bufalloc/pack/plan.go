package pack

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"godwit/bufalloc"
	"godwit/mem"
)

// Recorder takes down a run of a program, to be packed and followed by later runs. The
// zero value is ready. Not safe for concurrent use.
type Recorder struct {
	items []Item
	live  map[uint64]int // item by id
	now   uint64
}

// Alloc says that id, which must not be live, was given size bytes at a multiple of align,
// a power of two; 0 means 1. The size is rounded up to that too.
func (r *Recorder) Alloc(id, size, align uint64) {
	if r.live == nil {
		r.live = make(map[uint64]int)
	}
	r.live[id] = len(r.items)
	align = max(align, 1)
	r.items = append(r.items, Item{Lower: r.now, Upper: never, Size: (size + align - 1) &^ (align - 1), Align: align})
	r.now++
}

const never = 1<<64 - 1

// Free says that id was freed; one that is not live is passed over.
func (r *Recorder) Free(id uint64) {
	if i, ok := r.live[id]; ok {
		delete(r.live, id)
		r.items[i].Upper = r.now
		r.now++
	}
}

// Plan packs the run as Minimize does, within its limits.
func (r *Recorder) Plan(ctx context.Context, opts Options) (*bufalloc.Plan, Result, error) {
	res, err := Minimize(ctx, r.items, opts)
	if err != nil {
		return nil, res, err
	}
	plan, err := PlanOf(r.items, res.Offsets)
	return plan, res, err
}

// PlanOf is the plan of items and their offsets, for bufalloc.Options. It fails as
// bufalloc.NewPlan does.
func PlanOf(items []Item, offsets []uint64) (*bufalloc.Plan, error) {
	run := make([]bufalloc.Planned, len(items))
	for i, x := range items {
		run[i] = bufalloc.Planned{Lower: x.Lower, Upper: x.Upper, Size: x.Size, Offset: offsets[i]}
	}
	return bufalloc.NewPlan(run)
}

// planColumns are those of MiniMalloc's solvers, and of godwit pack.
const planColumns = "id,lower,upper,size,offset"

// ReadPlan reads what godwit pack wrote, or a solver of MiniMalloc's: a line for each
// allocation, with the columns id, lower, upper, size and offset. It fails with
// mem.ErrInvalidValue, and names the line, for anything else, and as Verify does for allocations that share bytes.
func ReadPlan(r io.Reader) (*bufalloc.Plan, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord, c.ReuseRecord, c.Comment = strings.Count(planColumns, ",")+1, true, '#'
	var items []Item
	var offsets []uint64
	for {
		row, err := c.Read()
		switch {
		case errors.Is(err, io.EOF) && c.InputOffset() > 0:
			plan, err := PlanOf(items, offsets)
			if err == nil {
				err = Verify(items, offsets)
			}
			if err != nil {
				return nil, err
			}
			return plan, nil
		case err != nil:
			return nil, fmt.Errorf("plan: want the columns %s: %w: %w", planColumns, err, mem.ErrInvalidValue)
		}
		line, _ := c.FieldPos(0)
		if line == 1 && strings.Join(row, ",") == planColumns {
			continue
		}
		var x Item
		var offset uint64
		for k, to := range [...]*uint64{&x.Lower, &x.Upper, &x.Size, &offset} {
			if *to, err = strconv.ParseUint(row[k+1], 10, 64); err != nil {
				return nil, fmt.Errorf("plan: line %d: %q in the columns %s: %w", line, row[k+1], planColumns, mem.ErrInvalidValue)
			}
		}
		items, offsets = append(items, x), append(offsets, offset)
	}
}
