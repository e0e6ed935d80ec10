//go:build cgo

package icd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/goccy/go-yaml"

	"godwit/mem"
)

// A file of devices, with the words of scenarios:
//
//	devices:
//	- {name: gpu, count: 2, memory: 64 MiB, type: gpu, device: 0}
//	links:
//	- {between: [gpu0, gpu1], way: ring, latency: 10 us, bandwidth: 25 GB/s}
//
// device is the real one, by index or by a part of its name; type is what
// programs are told.

type deviceFile struct {
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

// readFile takes devices and links from a file.
func (c *config) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("GODWIT_DEVICES is neither a number nor a file of devices: %w", err)
	}
	var f deviceFile
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	names := map[string]bool{"host": true}
	for i := range f.Devices {
		w, err := f.Devices[i].wanted()
		if err != nil {
			return fmt.Errorf("%s: device %d: %w", path, i, err)
		}
		for _, w.name = range f.Devices[i].names() {
			if w.name != "" && names[w.name] {
				return fmt.Errorf("%s: two devices are named %q", path, w.name)
			}
			names[w.name] = true
			c.devices = append(c.devices, w)
		}
	}
	if len(c.devices) < 1 || len(c.devices) > maxDevices {
		return fmt.Errorf("%s: %d devices: there can be 1 to %d", path, len(c.devices), maxDevices)
	}
	for i := range f.Links {
		link, err := f.Links[i].link()
		if err != nil {
			return fmt.Errorf("%s: link %d: %w", path, i, err)
		}
		for _, e := range f.Links[i].ends() {
			if !names[e[0]] || !names[e[1]] {
				return fmt.Errorf("%s: link %d: from %q to %q: no such devices", path, i, e[0], e[1])
			}
			c.links = append(c.links, wantedLink{e[0], e[1], link})
		}
	}
	return nil
}

// wanted is the device without its name.
func (d *fileDevice) wanted() (w wanted, err error) {
	w.real = d.Device
	if d.Driver != "" && d.Driver != "opencl" {
		return w, fmt.Errorf("driver %q: programs run on real devices, driver opencl", d.Driver)
	}
	if d.Memory != "" {
		if w.memory, err = humanize.ParseBytes(d.Memory); err != nil {
			return w, fmt.Errorf("memory %q: %w", d.Memory, err)
		}
	}
	if d.Type != "" {
		if w.typ = deviceTypes[d.Type]; w.typ == 0 {
			return w, fmt.Errorf("type %q: it is cpu, gpu or accelerator", d.Type)
		}
	}
	return w, nil
}

// names are those of the devices that d stands for, numbered where they are counted.
func (d *fileDevice) names() []string {
	if d.Count == nil {
		return []string{d.Name}
	}
	var list []string
	for k := range *d.Count {
		name := d.Name
		if name != "" {
			name += strconv.Itoa(k)
		}
		list = append(list, name)
	}
	return list
}

// link is what l says of its ends' connection.
func (l *fileLink) link() (link mem.Link, err error) {
	path := mem.Path{There: true}
	if l.Latency != "" {
		if path.Latency, err = time.ParseDuration(strings.ReplaceAll(l.Latency, " ", "")); err != nil {
			return link, err
		}
	}
	if l.Bandwidth != "" {
		if path.Bandwidth, err = humanize.ParseBytes(strings.TrimSuffix(l.Bandwidth, "/s")); err != nil {
			return link, fmt.Errorf("bandwidth %q: %w", l.Bandwidth, err)
		}
	}
	switch l.Way {
	case "", "ring":
		link.Ring = path
	case "direct":
		link.Direct = path
	default:
		return link, fmt.Errorf("way %q: it is direct or ring", l.Way)
	}
	return link, nil
}

// ends are from and to: one pair, or both directions.
func (l *fileLink) ends() [][2]string {
	if len(l.Between) == 2 {
		return [][2]string{{l.Between[0], l.Between[1]}, {l.Between[1], l.Between[0]}}
	}
	return [][2]string{{l.From, l.To}}
}
