// Package devicefile reads the files that say which devices libgodwit.so shows to
// a program, with the words of scenarios:
//
//	devices:
//	- {name: gpu, count: 2, memory: 64 MiB, type: gpu, device: 0}
//	links:
//	- {between: [gpu0, gpu1], way: ring, latency: 10 us, bandwidth: 25 GB/s}
//
// device is the real one, by index or by a part of its name; type is what
// programs are told. The file may come from anywhere, and the program that is
// shown the devices knows nothing of it: so everything in it is bounded, and an
// error tells the line and never what else stands in the file.
package devicefile

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/goccy/go-yaml"

	"godwit/internal/input"
	"godwit/internal/yaml/yamldoc"
	"godwit/mem"
)

// maxDevices is how many devices there can be, and maxBytes how long a file of
// them.
const (
	maxDevices = 1024
	maxBytes   = 256 << 10
	maxName    = 64 // bytes
)

// contents are what a file says.
type contents struct {
	Devices []device
	Links   []Link
}

// device is a device that is asked for.
type device struct {
	Name   string // may be empty
	Memory uint64 // bytes; 0 is the real device's
	Real   string // index or part of the name of the real device; empty is the next
	Type   string // "cpu", "gpu", "accelerator", or empty for the real one's
}

// Link is the way from one device to another, by names; "host" is one.
type Link struct {
	From, To string
	Link     mem.Link
}

// Read reads the file at path.
func Read(ctx context.Context, path string) (contents, error) {
	data, err := input.ReadFile(ctx, path, maxBytes)
	if err != nil {
		return contents{}, err
	}
	f, err := Parse(data)
	if err != nil {
		return contents{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Parse is Read for content that is at hand.
func Parse(data []byte) (out contents, err error) {
	if len(data) > maxBytes {
		return out, fmt.Errorf("%d bytes: want at most %d", len(data), maxBytes)
	}
	body, err := yamldoc.ParseWithoutAliases(data)
	if err != nil {
		return out, err
	}
	var f file
	if err := yaml.NodeToValue(body, &f, yaml.Strict()); err != nil {
		return out, yamldoc.Plain(err)
	}
	names := map[string]bool{"host": true}
	for i := range f.Devices {
		if err := f.Devices[i].add(&out, names); err != nil {
			return out, fmt.Errorf("device %d: %w", i, err)
		}
	}
	if len(out.Devices) == 0 {
		return out, fmt.Errorf("0 devices: there can be 1 to %d", maxDevices)
	}
	for i := range f.Links {
		if err := f.Links[i].add(&out, names); err != nil {
			return out, fmt.Errorf("link %d: %w", i, err)
		}
	}
	return out, nil
}

// file, fileDevice and fileLink are a file as it is written.
type file struct {
	Devices []fileDevice `yaml:"devices"`
	Links   []fileLink   `yaml:"links"`
}

type fileDevice struct {
	Name   string `yaml:"name"`
	Count  *int   `yaml:"count"`
	Memory string `yaml:"memory"`
	Type   string `yaml:"type"`
	Device string `yaml:"device"`
	Driver string `yaml:"driver"` // a scenario's; only opencl can be meant here
}

type fileLink struct {
	From      string   `yaml:"from"`
	To        string   `yaml:"to"`
	Between   []string `yaml:"between"`
	Way       string   `yaml:"way"`
	Latency   string   `yaml:"latency"`
	Bandwidth string   `yaml:"bandwidth"`
}

// add adds the devices that d stands for, numbered where they are counted.
func (d *fileDevice) add(out *contents, names map[string]bool) error {
	w, err := d.wanted()
	if err != nil {
		return err
	}
	count := 1
	if d.Count != nil {
		count = *d.Count
	}
	if count < 1 || count > maxDevices-len(out.Devices) {
		return fmt.Errorf("count %d: there can be 1 to %d devices in all", count, maxDevices)
	}
	for k := range count {
		w.Name = d.Name
		if d.Count != nil && d.Name != "" {
			w.Name += strconv.Itoa(k)
		}
		if w.Name != "" && names[w.Name] {
			return fmt.Errorf("two devices are named %q", w.Name)
		}
		names[w.Name] = true
		out.Devices = append(out.Devices, w)
	}
	return nil
}

// wanted is the device without its name.
func (d *fileDevice) wanted() (w device, err error) {
	w.Real = d.Device
	if d.Driver != "" && d.Driver != "opencl" {
		return w, fmt.Errorf("driver %q: programs run on real devices, driver opencl", short(d.Driver))
	}
	for _, name := range []string{d.Name, d.Device} {
		if len(name) > maxName || strings.ContainsFunc(name, unicode.IsControl) {
			return w, fmt.Errorf("name %q: want at most %d bytes and no control characters", short(name), maxName)
		}
	}
	if d.Memory != "" {
		if w.Memory, err = humanize.ParseBytes(d.Memory); err != nil {
			return w, fmt.Errorf("memory %q: want bytes such as 64 MiB", short(d.Memory))
		}
	}
	switch d.Type {
	case "", "cpu", "gpu", "accelerator":
		w.Type = d.Type
	default:
		return w, fmt.Errorf("type %q: it is cpu, gpu or accelerator", short(d.Type))
	}
	return w, nil
}

// add adds one direction, or both.
func (l *fileLink) add(out *contents, names map[string]bool) error {
	link, err := l.link()
	if err != nil {
		return err
	}
	ends := [][2]string{{l.From, l.To}}
	switch len(l.Between) {
	case 0:
	case 2:
		ends = [][2]string{{l.Between[0], l.Between[1]}, {l.Between[1], l.Between[0]}}
	default:
		return fmt.Errorf("between: want two devices, not %d", len(l.Between))
	}
	for _, e := range ends {
		if !names[e[0]] || !names[e[1]] {
			return fmt.Errorf("from %q to %q: no such devices", short(e[0]), short(e[1]))
		}
		if e[0] == e[1] {
			return fmt.Errorf("%q is linked to itself", short(e[0]))
		}
		out.Links = append(out.Links, Link{e[0], e[1], link})
	}
	return nil
}

// link is what l says of its ends' connection.
func (l *fileLink) link() (link mem.Link, err error) {
	path := mem.Path{There: true}
	if l.Latency != "" {
		path.Latency, err = time.ParseDuration(strings.ReplaceAll(l.Latency, " ", ""))
		if err != nil || path.Latency < 0 {
			return link, fmt.Errorf("latency %q: want a time such as 5us", short(l.Latency))
		}
	}
	if l.Bandwidth != "" {
		if path.Bandwidth, err = humanize.ParseBytes(strings.TrimSuffix(l.Bandwidth, "/s")); err != nil {
			return link, fmt.Errorf("bandwidth %q: want bytes a second such as 25 GB/s", short(l.Bandwidth))
		}
	}
	switch l.Way {
	case "", "ring":
		link.Ring = path
	case "direct":
		link.Direct = path
	default:
		return link, fmt.Errorf("way %q: it is direct or ring", short(l.Way))
	}
	return link, nil
}

// short is a word of the file, as an error shows it.
func short(s string) string {
	if len(s) > maxName {
		return s[:maxName] + "…"
	}
	return s
}

// checkCount holds a number of devices against the bound.
func checkCount(n int) error {
	if n < 1 || n > maxDevices {
		return fmt.Errorf("%d devices: there can be 1 to %d", n, maxDevices)
	}
	return nil
}
