package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit/devices"
	"godwit/internal/input"
	"godwit/internal/outfile"
	"godwit/internal/suggest"
	rt "godwit/runtime"
	"godwit/study/calibrate"
)

// calibrateFlags are the flags of godwit calibrate.
type calibrateFlags struct {
	out, driver string
	readings    string            // a file to write them to
	from        string            // a file of them
	params      map[string]string // --set's
	chosen      map[string]string // devices, by flags of their own; never nil
	count       int
	quick, json bool
}

func newCalibrate() *cobra.Command {
	f := calibrateFlags{chosen: make(map[string]string)}
	cmd := &cobra.Command{
		Use:   "calibrate [-o FILE]",
		Short: "Measure this computer's devices, and write a machine file that is like them",
		Long: `Measure this computer's devices, and write a machine file that is like them, for --machine
of run, sweep and compare.

What is measured are some tens of small shapes: launches, waits, copies, transfers by size,
alone and both ways at once, kernels by size. What a shape tells by itself is read off; the
other figures are fitted, so that all shapes take as long on the machine as here. Some kinds
are left out of the fit: how far the machine is off there is the early warning. The file
says how each figure is known, and how far it spread. It takes at most 90 s, and is worth
something on a computer that does nothing else.

--readings FILE keeps all that was measured, each time of each shape, and --from FILE makes a
machine of it: elsewhere, or by a later version.

Without -o the file is printed to standard output, and the shapes to standard error.

Exit code: 0 all shapes were measured, 1 some failed (the file says which, and leaves their
figures unsaid) or there are no devices, 2 bad usage, 128 and the signal's number where it
was interrupted: then nothing is written.`,
		Example: `  godwit calibrate -o here.yaml
  godwit run --example overlap --machine ./here.yaml
  godwit calibrate --platform NVIDIA --count 2 -o two.yaml
  godwit calibrate --driver cpu --count 2 --quick
  godwit calibrate --readings monday.json -o here.yaml
  godwit calibrate --from monday.json -o again.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCalibrate(cmd, &f)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "write the machine to `FILE`")
	fl.StringVar(&f.readings, "readings", "", "write all that was measured to `FILE`, as JSON, for --from")
	fl.StringVar(&f.from, "from", "", "measure nothing: make the machine of the readings of `FILE`")
	fl.StringVar(&f.driver, "driver", "opencl", "the driver that opens the devices")
	fl.StringToStringVar(&f.params, "set", nil, "parameters of the driver, such as bus=on")
	for _, key := range []string{"platform", "device", "type"} {
		fl.Var(param{f.chosen, key}, key, "of opencl: the devices' `"+strings.ToUpper(key)+"`, an index or a part of its name")
	}
	fl.Lookup("type").Usage = "of opencl: the devices' `TYPE`: cpu, gpu, accelerator"
	fl.IntVar(&f.count, "count", 0, "so many devices, `N` (0: all of a platform that has GPUs, or of the first; of other drivers 1)")
	fl.BoolVar(&f.quick, "quick", false, "take 20 s: fewer sizes, wider spreads")
	fl.BoolVar(&f.json, "json", false, "print one JSON object, the file's text in it")
	return cmd
}

// param is a flag that is a parameter of the driver.
type param struct {
	of  map[string]string
	key string
}

func (p param) String() string     { return p.of[p.key] }
func (p param) Set(v string) error { p.of[p.key] = v; return nil }
func (p param) Type() string       { return "string" }

// open opens the devices.
func (f *calibrateFlags) open(ctx context.Context) (devs []devices.Device, err error) {
	params := maps.Clone(f.chosen)
	maps.Copy(params, f.params)
	if f.driver != "opencl" {
		for range max(f.count, 1) {
			d, err := devices.Open(ctx, f.driver, devices.Config{Params: params})
			if devs = append(devs, d...); err != nil {
				return nil, errors.Join(err, closeDevices(devs))
			}
		}
		return devs, nil
	}
	if f.count > 0 {
		params["count"] = strconv.Itoa(f.count)
	}
	all, err := devices.Open(ctx, f.driver, devices.Config{Params: params})
	if err != nil {
		return nil, fmt.Errorf("%w; --driver cpu measures this computer without OpenCL", err)
	}
	platform := all[0].Info().Platform
	for _, d := range all {
		if d.Info().Type == devices.GPU {
			platform = d.Info().Platform
			break
		}
	}
	var others []devices.Device
	for _, d := range all {
		if d.Info().Platform == platform {
			devs = append(devs, d)
		} else {
			others = append(others, d)
		}
	}
	if err := closeDevices(others); err != nil {
		return nil, errors.Join(err, closeDevices(devs))
	}
	return devs, nil
}

func closeDevices(devs []devices.Device) error {
	var errs []error
	for _, d := range devs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

func runCalibrate(cmd *cobra.Command, f *calibrateFlags) (err error) {
	ctx, start := cmd.Context(), time.Now()
	if known := devices.Drivers(); !slices.Contains(known, f.driver) {
		return fmt.Errorf("--driver %q: there is none of this name; there are %s", f.driver, suggest.Among(f.driver, known))
	}
	if f.count < 0 || f.count > calibrate.MaxDevices {
		return fmt.Errorf("--count %d: want 1 to %d", f.count, calibrate.MaxDevices)
	}
	name := "calibrated"
	if f.out != "" {
		name = strings.TrimSuffix(filepath.Base(f.out), filepath.Ext(f.out))
	}
	var out *outfile.File
	if f.out != "" { // before a minute of measuring
		if out, err = outfile.Create(ctx, f.out); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.Abort()) }()
	}
	o := calibrate.Options{Name: name, Quick: f.quick, Time: 62 * time.Second}
	if f.quick {
		o.Time = 12 * time.Second
	}
	o.Progress = func(what string, done, of int) { // off a terminal, too: it says where it hangs
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "godwit: %3.0f s, %d of %d: %s\n", time.Since(start).Seconds(), done+1, of, what)
	}
	if f.from != "" {
		o.Time = 10 * time.Minute // nothing else waits
	}
	readings, err := f.measure(ctx, o)
	if err != nil {
		return err
	}
	r, err := calibrate.Fit(ctx, readings, o)
	if err != nil {
		return failed{err}
	}
	if out != nil {
		if _, err := out.WriteString(r.File); err != nil {
			return err
		}
		if err := out.Commit(); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		err = writeJSON(cmd.OutOrStdout(), r)
	case f.out == "":
		printCalibration(cmd.ErrOrStderr(), r)
		_, err = io.WriteString(cmd.OutOrStdout(), r.File)
	default:
		printCalibration(cmd.OutOrStdout(), r)
		fmt.Fprintf(cmd.OutOrStdout(), "%s written, %.0f s\n", f.out, time.Since(start).Seconds())
	}
	if err == nil && len(r.Missing) > 0 {
		err = failed{fmt.Errorf("%d shapes failed; the first: %s", len(r.Missing), r.Missing[0])}
	}
	return err
}

// measure measures, or reads what was measured, and keeps it where that was asked.
func (f *calibrateFlags) measure(ctx context.Context, o calibrate.Options) (*calibrate.Readings, error) {
	if f.from != "" {
		data, err := input.ReadAny(ctx, f.from, mostMeasured)
		if err != nil {
			return nil, err
		}
		return calibrate.ParseReadings(f.from, data)
	}
	devs, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	o.Runtime = rt.Options{Devices: devs, OwnDevices: true}
	o.Head = []string{fmt.Sprintf("On %s: %s/%s, %d cores, godwit %s.", time.Now().Format("2006-01-02 15:04"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), version())}
	for _, d := range devs {
		info := d.Info()
		o.Head = append(o.Head, strings.Join(strings.Fields(fmt.Sprintf("%s: %s %s %s", f.driver, info.Platform, info.Name, info.Version)), " "))
	}
	r, err := calibrate.Measure(ctx, o)
	if err != nil {
		return nil, failed{err}
	}
	if f.readings != "" {
		err = outfile.Fill(ctx, f.readings, func(w io.Writer) error { return writeJSON(w, r) })
	}
	return r, err
}

func printCalibration(w io.Writer, r *calibrate.Result) {
	show(w, 1, 0, r.Shapes)
	show(w, 1, 0, r.Values)
	for _, m := range r.Missing {
		_, _ = fmt.Fprintln(w, "failed:", m) // w keeps its first error
	}
	for _, n := range r.Notes {
		_, _ = fmt.Fprintln(w, n)
	}
}
