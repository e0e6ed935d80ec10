// Command godwit runs and explains multi-device memory: scenarios, devices,
// allocation traces, benchmarks. See package cli.
package main

import (
	"os"

	"godwit/cmd/godwit/cli"
)

func main() { os.Exit(cli.Main()) }
