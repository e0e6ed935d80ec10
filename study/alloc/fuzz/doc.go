// Package fuzz searches for sequences of allocations and frees that hurt a
// placement strategy.
//
// A sequence is a genome: four bytes a gene, any bytes are a valid one, so that
// the same form feeds Go's native fuzzing. A search ([Begin]) keeps a population of
// genomes, mutates and crosses them, keeps the worst for the strategy, and
// starts afresh when nothing more comes of it. The worst found is shrunk and
// put beside two yardsticks: Robson's bound, which no allocator that cannot
// move chunks can beat on all programs, and an offline packing of the same
// sequence. [Finding.Save] writes it as a trace that can be replayed and as a
// corpus entry of the fuzz target FuzzStrategies.
//
// Scores are counted, never timed, and random numbers come from the seed alone:
// the same seed gives the same finding on every machine, unless time or a
// signal ended the search first.
package fuzz
