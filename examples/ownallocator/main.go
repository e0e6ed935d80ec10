// Command ownallocator is a godwit with a placement of one's own: built, it takes
// "worstfit" wherever a strategy is named, in replays, searches, benchmarks and
// devices.
package main

import (
	"os"

	"godwit/cmd/godwit/cli"
	_ "godwit/examples/ownallocator/worstfit"
)

func main() { os.Exit(cli.Main()) }
