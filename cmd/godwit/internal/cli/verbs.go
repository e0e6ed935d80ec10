package cli

import "github.com/spf13/cobra"

// verbs lists the commands, one constructor and one file each.
func verbs() []*cobra.Command {
	return []*cobra.Command{
		newRun(),
		newSweep(),
		newCampaign(),
		newCompare(),
		newPredict(),
		newExec(),
		newExamples(),
		newMachines(),
		newCalibrate(),
		newDevices(),
		newBench(),
		newFuzz(),
		newReplay(),
		newPack(),
		newTrace(),
		newSchema(),
		newVersion(),
	}
}
