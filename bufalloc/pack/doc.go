// Package pack is the offline packer: given items whose lifetimes are known
// beforehand, it finds offsets such that no two items alive at one time share
// a byte, in the smallest region, or in one of a given size. The problem is
// dynamic storage allocation, NP-hard in general (Garey and Johnson, SR2).
//
// Assumptions: a few hundred to a few hundred thousand items; few of them alive
// at once compared with their number; plans are made once and used many times,
// so that seconds of search are well spent.
//
// What follows from them:
//
//   - Time is reduced to sections, the maximal sets of items alive at once, and
//     cut where nothing lives on: the components are packed independently
//     (problem.go).
//   - A first placement comes from an online best fit in O(n log n)
//     (timeline.go), better ones from greedy first fit under several orders
//     (greedy.go, order.go), over an index that finds an item's neighbours
//     (index.go, layout.go).
//   - A greedy placement that is slightly too high is bent into shape by
//     ejecting and placing again (repair.go), and its order is improved by its
//     failures (wheel.go). This is what works for traces of 10^5 items.
//   - Components of a few hundred items are searched exhaustively (search.go)
//     under several preference orders in turn (portfolio.go). The search either
//     finds a placement or proves that there is none.
//   - Minimize drives all of them down towards the peak of live bytes, below
//     which nothing can go (minimize.go).
//
// The exact search is built on the ideas of M. D. Moffitt, "MiniMalloc: A
// Lightweight Memory Allocator for Hardware-Accelerated Machine Learning"
// (ASPLOS 2023): canonical placements made bottom up, a monotonic floor,
// inference on sections, dominance and several static orders; of M. Maas et al.,
// "TelaMalloc: Efficient On-Chip Memory Allocation for Production Machine
// Learning Accelerators" (ASPLOS 2022): heuristics that guide a search instead of
// a solver alone; and of the strip packing literature. To these it adds a table of failed states, the rule that an item
// passed over must be supported by a later one, and a scheduling bound for
// every section; see search.go.
//
// Everything is deterministic: the same items under the same Options.Nodes give
// the same placement on any machine, unless the context ends first. Nothing
// here starts a goroutine, and nothing is shared between calls.
package pack
