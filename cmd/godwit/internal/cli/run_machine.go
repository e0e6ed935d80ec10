package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"godwit/study/machine"
	"godwit/study/scenario"
)

// machineFlags are the flags of runs in virtual time.
type machineFlags struct {
	seed   uint64
	csv    string
	stamps bool
}

func (f *machineFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.csv, "csv", "", "with --machine: write what ran, a line for each command and copy, to `FILE`; - is standard output")
	cmd.Flags().BoolVar(&f.stamps, "stamps", false, "with --machine: its devices keep no bytes, but who wrote them, and that is what is verified")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "with --machine: draw the order of what happens at one instant by `N`; 0 leaves it as it comes")
}

// apply has a run be on the machine that the flags name, if any.
func (f *runFlags) apply(ctx context.Context, s *scenario.Scenario, opt *scenario.RunOptions) (err error) {
	switch {
	case f.machine == "" && f.csv != "":
		return errors.New("--csv: it lists what ran in virtual time: want --machine, too")
	case f.machine == "" && f.seed != 0:
		return errors.New("--seed: it draws the order of what happens at one instant of virtual time: want --machine, too")
	case f.machine == "" && f.stamps:
		return errors.New("--stamps: modelled devices keep who wrote bytes in their place: want --machine, too")
	case f.machine == "":
		return nil
	case f.driver != "":
		return fmt.Errorf("--machine %s and --driver %s: a run is on a machine or on a driver's devices", f.machine, f.driver)
	}
	opt.Seed, opt.Stamps = f.seed, f.stamps
	opt.Machine, err = loadMachine(ctx, f.machine, machine.Options{Devices: len(s.Devices)})
	return err
}
