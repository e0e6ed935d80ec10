package cli

// lacks lists what this godwit does not have on an operating system, for
// godwit devices.
func lacks(system string) []string {
	list := []string{}
	if system == "linux" {
		return list
	}
	list = append(list,
		"godwit exec: libgodwit.so is built for Linux",
		"allocators from lib: and exec:, which share memory with another process",
		"huge pages, and memory near a NUMA node",
		"an end to children when godwit is killed",
	)
	if system == "windows" {
		list = append(list, "shared virtual memory", "files replaced in one step while another program has them open")
	}
	return list
}
