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
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/goccy/go-yaml/ast"

	"godwit/internal/input"
	"godwit/internal/yaml"
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
	Devices []Device
	Links   []Link
}

// Device is a device that is asked for.
type Device struct {
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
	return Parse(path, data)
}

// Parse is Read for content that is at hand; path is for errors.
func Parse(path string, data []byte) (contents, error) {
	l := &loader{File: yaml.File{Name: path, Most: 1}, names: map[string]bool{"host": true}}
	if len(data) > maxBytes {
		return l.out, fmt.Errorf("%s: %d bytes: want at most %d", path, len(data), maxBytes)
	}
	if body := l.File.Parse(data, "a file of devices names some"); body != nil {
		l.read(body)
	}
	return l.out, errors.Join(l.Errs...)
}

// loader is the state of reading one file.
type loader struct {
	yaml.File
	out   contents
	names map[string]bool
}

func (l *loader) read(body ast.Node) {
	f := struct {
		Devices []ast.Node `yaml:"devices"`
		Links   []ast.Node `yaml:"links"`
	}{}
	if _, word := body.(ast.ScalarNode); word { // which Decode would show
		l.Wrong(body, true, "want devices and links")
		return
	}
	l.Decode(body, "file", &f)
	for _, n := range f.Devices {
		l.device(n)
	}
	if len(l.out.Devices) == 0 {
		l.Wrong(body, false, "0 devices: there can be 1 to %d", maxDevices)
	}
	for _, n := range f.Links {
		l.link(n)
	}
}

// device adds the devices that n stands for, numbered where they are counted.
func (l *loader) device(n ast.Node) {
	d := struct {
		Name   string `yaml:"name"`
		Count  uint64 `yaml:"count" from:"1"`
		Memory string `yaml:"memory"`
		Type   string `yaml:"type" oneof:"cpu gpu accelerator"`
		Device string `yaml:"device"`
		Driver string `yaml:"driver" oneof:"opencl"` // a scenario's
	}{Count: 1}
	m := l.Decode(n, "device", &d)
	if m == nil {
		return
	}
	w := Device{Real: d.Device, Type: d.Type}
	if len(d.Name) > maxName || len(d.Device) > maxName {
		l.Wrong(n, false, "device: want a name of at most %d bytes", maxName)
	}
	var err error
	if w.Memory, err = humanize.ParseBytes(cmp.Or(d.Memory, "0")); err != nil {
		l.Wrong(m.At("memory"), false, "device: memory %q: want bytes such as 64 MiB", yaml.Short(d.Memory))
	}
	if d.Count > uint64(maxDevices-len(l.out.Devices)) {
		l.Wrong(m.At("count"), false, "device: count %d: there can be 1 to %d devices in all", d.Count, maxDevices)
		return
	}
	for k := range d.Count {
		w.Name = d.Name
		if m.Has("count") && d.Name != "" {
			w.Name += strconv.FormatUint(k, 10)
		}
		if w.Name != "" && l.names[w.Name] {
			l.Wrong(n, false, "two devices are named %q", w.Name)
		}
		l.names[w.Name] = true
		l.out.Devices = append(l.out.Devices, w)
	}
}

// link adds one direction, or both.
func (l *loader) link(n ast.Node) {
	x := struct {
		From      string   `yaml:"from"`
		To        string   `yaml:"to"`
		Between   []string `yaml:"between"`
		Way       string   `yaml:"way" oneof:"direct ring"`
		Latency   string   `yaml:"latency"`
		Bandwidth string   `yaml:"bandwidth"`
	}{}
	m := l.Decode(n, "link", &x)
	if m == nil {
		return
	}
	path, err := mem.Path{There: true}, error(nil)
	if path.Latency, err = time.ParseDuration(strings.ReplaceAll(cmp.Or(x.Latency, "0"), " ", "")); err != nil || path.Latency < 0 {
		l.Wrong(m.At("latency"), false, "link: latency %q: want a time such as 5us", yaml.Short(x.Latency))
	}
	if path.Bandwidth, err = humanize.ParseBytes(strings.TrimSuffix(cmp.Or(x.Bandwidth, "0"), "/s")); err != nil {
		l.Wrong(m.At("bandwidth"), false, "link: bandwidth %q: want bytes a second such as 25 GB/s", yaml.Short(x.Bandwidth))
	}
	link := mem.Link{Ring: path}
	if x.Way == "direct" {
		link = mem.Link{Direct: path}
	}
	ends := [][2]string{{x.From, x.To}}
	if len(x.Between) == 2 {
		ends = [][2]string{{x.Between[0], x.Between[1]}, {x.Between[1], x.Between[0]}}
	} else if len(x.Between) > 0 {
		l.Wrong(m.At("between"), false, "link: between: want two devices, not %d", len(x.Between))
	}
	for _, e := range ends {
		switch {
		case !l.names[e[0]] || !l.names[e[1]]:
			l.Wrong(n, false, "link: from %q to %q: no such devices", yaml.Short(e[0]), yaml.Short(e[1]))
		case e[0] == e[1]:
			l.Wrong(n, false, "link: %q is linked to itself", yaml.Short(e[0]))
		}
		l.out.Links = append(l.out.Links, Link{e[0], e[1], link})
	}
}

// checkCount holds a number of devices against the bound.
func checkCount(n int) error {
	if n < 1 || n > maxDevices {
		return fmt.Errorf("%d devices: there can be 1 to %d", n, maxDevices)
	}
	return nil
}
