// Package journal keeps rows as they are made, so that whoever makes them may be killed at any moment: lines of JSON in a file that is
// only ever added to and that one process has at a time. A line is a head, which says whose the rows are that follow, or the row of
// an index with its sum. Journals may be concatenated; a line that is torn, or whose bits have flipped, is left out, and its row is made again.
package journal
