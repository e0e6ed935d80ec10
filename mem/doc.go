// Package mem holds the words every other package of Godwit shares: byte
// ranges, memories and sets of them, points on queue timelines, access modes,
// link topologies, the Resource contract through which all storage comes, and
// the error values with their OpenCL status codes.
//
// It imports nothing of the project and decides nothing: no allocation policy,
// no coherence, no drivers.
package mem
