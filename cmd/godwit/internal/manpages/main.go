// Command manpages writes a man page for godwit and for each of its verbs, made of
// their own help: manpages DIR.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra/doc"

	"godwit/cmd/godwit/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manpages DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	date, err := time.Parse(time.DateOnly, cli.ReleaseDate)
	if err != nil {
		return err
	}
	return doc.GenManTree(root, &doc.GenManHeader{Title: "GODWIT", Section: "1", Source: "Godwit " + cli.Version, Manual: "Godwit", Date: &date}, dir)
}
