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
//	- {between: [gpu0, gpu1], route: host, latency: 10 us, bandwidth: 25 GB/s}
//
// device is the real one, by index or by a part of its name; type is what
// programs are told.

type deviceFile struct {
	Devices []struct {
		Name   string `yaml:"name"`
		Count  *int   `yaml:"count"`
		Memory string `yaml:"memory"`
		Type   string `yaml:"type"`
		Device string `yaml:"device"`
		Driver string `yaml:"driver"` // a scenario's; only opencl can be meant here
	} `yaml:"devices"`
	Links []struct {
		From      string   `yaml:"from"`
		To        string   `yaml:"to"`
		Between   []string `yaml:"between"`
		Route     string   `yaml:"route"`
		Latency   string   `yaml:"latency"`
		Bandwidth string   `yaml:"bandwidth"`
	} `yaml:"links"`
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
	for i, d := range f.Devices {
		w := wanted{real: d.Device}
		if d.Driver != "" && d.Driver != "opencl" {
			return fmt.Errorf("%s: device %d: driver %q: programs run on real devices, driver opencl", path, i, d.Driver)
		}
		if d.Memory != "" {
			if w.memory, err = humanize.ParseBytes(d.Memory); err != nil {
				return fmt.Errorf("%s: device %d: memory %q: %w", path, i, d.Memory, err)
			}
		}
		if d.Type != "" {
			if w.typ = deviceTypes[d.Type]; w.typ == 0 {
				return fmt.Errorf("%s: device %d: type %q: it is cpu, gpu or accelerator", path, i, d.Type)
			}
		}
		n := 1
		if d.Count != nil {
			n = *d.Count
		}
		for k := range n {
			w.name = d.Name
			if d.Count != nil && d.Name != "" {
				w.name += strconv.Itoa(k)
			}
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
	for i, l := range f.Links {
		link := mem.Link{Route: mem.RouteHost}
		switch l.Route {
		case "", "host":
		case "peer":
			link.Route = mem.RoutePeer
		default:
			return fmt.Errorf("%s: link %d: route %q: it is host or peer", path, i, l.Route)
		}
		if l.Latency != "" {
			if link.Latency, err = time.ParseDuration(strings.ReplaceAll(l.Latency, " ", "")); err != nil {
				return fmt.Errorf("%s: link %d: %w", path, i, err)
			}
		}
		if l.Bandwidth != "" {
			if link.Bandwidth, err = humanize.ParseBytes(strings.TrimSuffix(l.Bandwidth, "/s")); err != nil {
				return fmt.Errorf("%s: link %d: bandwidth %q: %w", path, i, l.Bandwidth, err)
			}
		}
		ends := [][2]string{{l.From, l.To}}
		if len(l.Between) == 2 {
			ends = [][2]string{{l.Between[0], l.Between[1]}, {l.Between[1], l.Between[0]}}
		}
		for _, e := range ends {
			if !names[e[0]] || !names[e[1]] {
				return fmt.Errorf("%s: link %d: from %q to %q: no such devices", path, i, e[0], e[1])
			}
			c.links = append(c.links, wantedLink{e[0], e[1], link})
		}
	}
	return nil
}
