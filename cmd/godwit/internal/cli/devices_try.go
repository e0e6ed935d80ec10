package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"godwit/devices/opencl"
	"godwit/internal/nvlink"
	"godwit/internal/process"
)

// How a driver is tried: in a child, since it may crash. The child says on its error output what it is
// about to do, a line each, and prints how it went, a Driver in JSON.

// tryDriver has a child try the driver, notes how that went, and prints it.
func tryDriver(ctx context.Context, out io.Writer, most uint64) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, version, err := opencl.LinkDriver()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "trying windows with driver %s in a process of its own\n", version)
	cmd := exec.CommandContext(ctx, self, "devices", "--try-here", fmt.Sprintf("--try-most=%d", most)) //nolint:gosec // ourselves
	var text, steps bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &steps
	err = process.Run(ctx, cmd)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d := nvlink.Driver{}
	if e := json.Unmarshal(text.Bytes(), &d); err == nil {
		err = e
	}
	if err != nil { // crashed, or was killed
		lines := strings.Split(strings.TrimSpace(steps.String()), "\n")
		d = nvlink.Driver{Version: version, Tried: fmt.Sprintf("the process ended with %v after: %s", err, lines[0])}
		for _, l := range lines {
			if step, ok := strings.CutPrefix(l, stepPrefix); ok {
				d.Tried = fmt.Sprintf("the process ended with %v in: %s", err, step)
			}
		}
	}
	path, err := nvlink.Note(ctx, d)
	if err != nil {
		return err
	}
	how := "good"
	if !d.Good {
		how = "not to be used"
	}
	fmt.Fprintf(out, "driver %s: %s (%s)\nnoted in %s\n", d.Version, how, d.Tried, path)
	if !d.Good {
		return failed{fmt.Errorf("driver %s failed: %w", d.Version, nvlink.ErrDriver)}
	}
	return nil
}

const stepPrefix = "step: "

// tryHere is what the child does.
func tryHere(cmd *cobra.Command, most uint64) error {
	d, err := tryLinks(cmd.Context(), most, func(step string) { fmt.Fprintln(cmd.ErrOrStderr(), stepPrefix+step) })
	if err != nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(d)
}
