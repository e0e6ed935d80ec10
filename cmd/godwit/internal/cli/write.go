package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"godwit/internal/outfile"
	"godwit/internal/suggest"
)

// builtIn is a file that the command has in itself.
type builtIn struct {
	name, file string
	content    []byte
}

// newWrite is the verb that writes such files to a folder; what says which they are.
func newWrite(what string, all []builtIn) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "write DIR [NAME…]",
		Short: fmt.Sprintf("Write %s as files to a folder", what),
		Long: fmt.Sprintf(`Write %s as files to a folder, which is made where it is missing:
those named, or all. A file that is there already and differs stays, unless --force.`, what),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s write: which folder?", cmd.Parent().Name())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := pick(all, args[1:])
			if err != nil {
				return fmt.Errorf("%s: %w", cmd.Parent().Name(), err)
			}
			return writeBuiltIn(cmd.Context(), cmd.OutOrStdout(), args[0], wanted, force)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			for _, b := range all {
				names = append(names, b.name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace files that differ")
	return cmd
}

// pick are those of all that have one of the names, or files of these names; all where
// none is named.
func pick(all []builtIn, names []string) (wanted []builtIn, err error) {
	var known, missing []string
	for _, b := range all {
		known = append(known, b.name)
		if len(names) == 0 || slices.Contains(names, b.name) || slices.Contains(names, b.file) {
			wanted = append(wanted, b)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(b builtIn) bool { return b.name == name || b.file == name }) {
			missing = append(missing, fmt.Sprintf("%q: there is none of this name; there are %s%s", name, strings.Join(known, ", "), suggest.For(name, known)))
		}
	}
	if len(missing) > 0 {
		return nil, errors.New(strings.Join(missing, "\n"))
	}
	return wanted, nil
}

// writeBuiltIn writes files to dir, and says which.
func writeBuiltIn(ctx context.Context, out io.Writer, dir string, all []builtIn, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, b := range all {
		path := filepath.Join(dir, b.file)
		if old, err := os.ReadFile(path); err == nil && !bytes.Equal(old, b.content) && !force {
			return fmt.Errorf("%s is there already and differs: --force replaces it", path)
		}
		if err := outfile.Write(ctx, path, b.content); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, path) // out keeps its first error
	}
	return nil
}
