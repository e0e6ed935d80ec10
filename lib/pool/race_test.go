//go:build race

package pool_test

// underRace: everything takes ten times as long.
const underRace = true
