// Command godwit runs and explains multi-device memory: scenarios, devices,
// allocation traces, benchmarks. See package cmd/godwit/internal/cli.
package main

import (
	"os"

	"godwit/cmd/godwit/internal/cli"
)

func main() { os.Exit(cli.Main()) }
