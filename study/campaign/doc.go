// Package campaign has the points of a sweep made by workers on any hosts, over NATS JetStream.
//
// A Coordinator has the sweep's journal, which is the truth: it publishes units of the points that the
// journal lacks, and adds the rows that come back, each once. Work is a worker's life: it leases units,
// makes their points a chunk at a time, and publishes the rows of each chunk. Either may be killed at any
// moment; docs/design/scale.md says what happens then.
package campaign
