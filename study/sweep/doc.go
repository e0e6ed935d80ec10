// Package sweep runs one scenario with many values of its parameters and keeps a row of
// figures for each.
//
// The points of a sweep are the product of its axes, the last of which changes first. A
// point is known by a hash of all that its figures may depend on: its scenario with all
// values put in, its machine, its inputs and the program that runs it. A row is written
// to a journal as soon as its point is done, so that a sweep which was interrupted, or
// killed, goes on where it was: rows whose hash is a point's are taken, and what was
// torn is dropped. The results are written at the end, in the order of the points, and
// are the same bytes whether and however often a sweep was interrupted, as far as the
// figures are: those of modelled machines, and all but times.
package sweep
