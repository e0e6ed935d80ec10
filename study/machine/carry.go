package machine

import (
	"slices"

	"godwit/devices/virtual"
	"godwit/internal/yaml"
)

// Who carries commands, and what that costs: as package devices/virtual has it.

// threads are the host's, of the context's own.
type threads struct {
	Dispatcher int `json:"dispatcher" yaml:"dispatcher" from:"1" to:"1024"`
	Pilot      int `json:"pilot" yaml:"pilot" from:"1" to:"1024"`
	Program    int `json:"program,omitempty" yaml:"program" from:"1" to:"1024"` // threads of the program's, among which its devices are dealt out
}

// carry is what a command of a class costs its carrier.
type carry struct {
	By      string  `json:"by,omitempty" yaml:"by" oneof:"library program dispatcher pilot"` // empty is the library
	Enqueue uint64  `json:"enqueue_ns,omitempty" yaml:"enqueue" unit:"time"`                 // of the host thread that enqueues it
	Hold    uint64  `json:"hold_ns,omitempty" yaml:"hold" unit:"time"`                       // of the carrier's thread
	Submit  uint64  `json:"submit_ns,omitempty" yaml:"submit" unit:"time"`                   // until the device has it
	Setup   *uint64 `json:"setup_ns,omitempty" yaml:"setup" unit:"time"`                     // of its engine, beside bytes and work-items; absent it is the device's Launch or Copy
}

// classes are all of them, in the order of virtual.Class.
type classes struct {
	Launch carry `json:"launch,omitzero" yaml:"launch"`
	Fill   carry `json:"fill,omitzero" yaml:"fill"`
	Inside carry `json:"inside,omitzero" yaml:"inside"`
	Up     carry `json:"up,omitzero" yaml:"up"`
	Down   carry `json:"down,omitzero" yaml:"down"`
	Peer   carry `json:"peer,omitzero" yaml:"peer"`
	Ring   carry `json:"ring,omitzero" yaml:"ring"`
}

func (c *classes) list() [virtual.Classes]*carry {
	return [...]*carry{&c.Launch, &c.Fill, &c.Inside, &c.Up, &c.Down, &c.Peer, &c.Ring}
}

// handOver is what passes between an end and what waited for it.
type handOver struct {
	Hold  uint64 `json:"hold_ns,omitempty" yaml:"hold" unit:"time"`
	Delay uint64 `json:"delay_ns,omitempty" yaml:"delay" unit:"time"`
}

// handOvers are all of them, from carrier to carrier, in the order of virtual.Carrier.
type handOvers struct {
	Queue                handOver `json:"queue,omitzero" yaml:"queue"`   // within a device's own queues
	Queues               handOver `json:"queues,omitzero" yaml:"queues"` // at least, from one of these to another
	LibraryLibrary       handOver `json:"library_library,omitzero" yaml:"library-library"`
	LibraryProgram       handOver `json:"library_program,omitzero" yaml:"library-program"`
	LibraryDispatcher    handOver `json:"library_dispatcher,omitzero" yaml:"library-dispatcher"`
	LibraryPilot         handOver `json:"library_pilot,omitzero" yaml:"library-pilot"`
	ProgramLibrary       handOver `json:"program_library,omitzero" yaml:"program-library"`
	ProgramProgram       handOver `json:"program_program,omitzero" yaml:"program-program"`
	ProgramDispatcher    handOver `json:"program_dispatcher,omitzero" yaml:"program-dispatcher"`
	ProgramPilot         handOver `json:"program_pilot,omitzero" yaml:"program-pilot"`
	DispatcherLibrary    handOver `json:"dispatcher_library,omitzero" yaml:"dispatcher-library"`
	DispatcherProgram    handOver `json:"dispatcher_program,omitzero" yaml:"dispatcher-program"`
	DispatcherDispatcher handOver `json:"dispatcher_dispatcher,omitzero" yaml:"dispatcher-dispatcher"`
	DispatcherPilot      handOver `json:"dispatcher_pilot,omitzero" yaml:"dispatcher-pilot"`
	PilotLibrary         handOver `json:"pilot_library,omitzero" yaml:"pilot-library"`
	PilotProgram         handOver `json:"pilot_program,omitzero" yaml:"pilot-program"`
	PilotDispatcher      handOver `json:"pilot_dispatcher,omitzero" yaml:"pilot-dispatcher"`
	PilotPilot           handOver `json:"pilot_pilot,omitzero" yaml:"pilot-pilot"`
}

func (h *handOvers) table() [virtual.Carriers][virtual.Carriers]*handOver {
	return [...][virtual.Carriers]*handOver{
		{&h.LibraryLibrary, &h.LibraryProgram, &h.LibraryDispatcher, &h.LibraryPilot},
		{&h.ProgramLibrary, &h.ProgramProgram, &h.ProgramDispatcher, &h.ProgramPilot},
		{&h.DispatcherLibrary, &h.DispatcherProgram, &h.DispatcherDispatcher, &h.DispatcherPilot},
		{&h.PilotLibrary, &h.PilotProgram, &h.PilotDispatcher, &h.PilotPilot},
	}
}

// carrierNames are in the order of virtual.Carrier.
var carrierNames = []string{"library", "program", "dispatcher", "pilot"}

// threadless refuses a hold of who has no thread that it could hold.
func (l *loader) threadless(m *yaml.Mapping, d *Device) {
	for i, c := range d.Classes.list() {
		if c.Hold > 0 && c.By != "dispatcher" && c.By != "pilot" {
			l.wrong(m.At("classes"), "%s: classes: hold of %s: a dispatcher and a pilot have threads to be held: say enqueue or submit", m.What, classNames[i])
		}
	}
	none := map[string]handOver{"queue": d.HandOver.Queue, "queues": d.HandOver.Queues, "library-library": d.HandOver.LibraryLibrary}
	for i, from := range d.HandOver.table() {
		none[carrierNames[i]+"-program"] = *from[virtual.Program]
	}
	for _, key := range []string{"queue", "queues", "library-library", "library-program", "program-program", "dispatcher-program", "pilot-program"} {
		if none[key].Hold > 0 {
			l.wrong(m.At("handover"), "%s: handover: %s: hold: there is no thread to be held: say delay", m.What, key)
		}
	}
}

// classNames are in the order of virtual.Class.
var classNames = []string{"launch", "fill", "inside", "up", "down", "peer", "ring"}

// carries reports whether the file says anything of carriers, or of what a host thread owes.
func (m *Machine) carries() bool {
	said := func(b boxed) bool { return b.Threads.Dispatcher+b.Threads.Pilot > 0 || b.First != first{} }
	return slices.ContainsFunc(m.boxes, said) || slices.ContainsFunc(m.Devices, func(d Device) bool { return d.Classes != classes{} || d.HandOver != handOvers{} })
}

// carry makes of the file what Carriage is.
func (m *Machine) carry(engine func(name string, memory, slots int) int32) {
	m.carriage = &virtual.Carriage{Devices: make([]virtual.Carrying, 1+len(m.Devices))}
	threads := make([][virtual.Carriers]int32, len(m.boxes))
	for h := range m.boxes {
		b := &m.boxes[h]
		dispatcher := engine(b.Name+" dispatcher", 0, max(b.Threads.Dispatcher, 1))
		threads[h] = [...]int32{-1, -1, dispatcher, engine(b.Name+" pilot", 0, max(b.Threads.Pilot, 1))}
	}
	m.carriage.Devices[0].Threads = threads[0]
	for i := range m.Devices {
		d, out := &m.Devices[i], &m.carriage.Devices[i+1]
		for k, c := range d.Classes.list() {
			by := max(slices.Index(carrierNames, c.By), 0)
			out.Classes[k] = virtual.Carry{By: virtual.Carrier(by), Enqueue: c.Enqueue, Hold: c.Hold, Submit: c.Submit}
		}
		for from, row := range d.HandOver.table() {
			for to, h := range row {
				out.HandOver[from][to] = virtual.HandOver(*h)
			}
		}
		out.Queue, out.Queues, out.Threads, out.Crowded = d.HandOver.Queue.Delay, d.HandOver.Queues.Delay, threads[d.host], m.boxes[d.host].Crowded
	}
}

// Carriage implements virtual.Machine.
func (m *Machine) Carriage() *virtual.Carriage { return m.carriage }

// byKernels checks which copies are kernels below, and that devices agree on how many cores they share.
func (l *loader) byKernels(m *yaml.Mapping, d *Device) {
	for _, name := range d.ByKernels {
		if i := slices.Index(classNames, name); i < int(virtual.Inside) || i > int(virtual.Peer) {
			l.wrong(m.At("copies_wait_for_kernels"), "%s: copies_wait_for_kernels: %q: want some of inside, up, down and peer", m.What, yaml.Short(name))
		}
	}
	for _, name := range d.Awaits {
		if name != "up" && name != "down" {
			l.wrong(m.At("pageable_awaits_host"), "%s: pageable_awaits_host: %q: want some of up and down", m.What, yaml.Short(name))
		}
	}
	for i := range l.out.Devices {
		if n := l.out.Devices[i].Cores; n > 0 && d.Cores > 0 && n != d.Cores {
			l.wrong(m.At("cores"), "%s: cores: %d, and %d of device %s: they share the host's", m.What, d.Cores, n, l.out.Devices[i].Name)
			return
		}
	}
}
