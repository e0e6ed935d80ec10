package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/yaml"
)

// Topologies make switches and links as the literature has them: fat trees of switches that are alike (Leiserson 1985;
// Al-Fares, Loukissas and Vahdat 2008; numbered as XGFT, Öhring et al. 1995), tori, and dragonflies (Kim, Dally, Scott
// and Abts 2008). What hangs there, in its order, takes the places in theirs.

// The bounds of a topology's figures; its switches count as others.
const (
	maxRadix  = 4096
	maxLevels = 6
	maxDims   = 6
	maxSide   = 1 << 16
)

// topology is what a file says of one.
type topology struct {
	Kind string   `yaml:"kind" oneof:"fat-tree torus dragonfly" need:"true"`
	Name string   `yaml:"name" names:"true" need:"true"`
	Of   ast.Node `yaml:"of" need:"true"`

	K      int `yaml:"k" from:"2" to:"4096"`
	Radix  int `yaml:"radix" from:"2" to:"4096"`
	Levels int `yaml:"levels" from:"1" to:"6"`
	Over   int `yaml:"oversubscription" from:"1" to:"4095"`

	Dims []ast.Node `yaml:"dims"`
	Wrap bool       `yaml:"wrap"`

	P      int `yaml:"p" from:"1" to:"4096"`
	A      int `yaml:"a" from:"1" to:"4096"`
	H      int `yaml:"h" from:"1" to:"4096"`
	Groups int `yaml:"groups" from:"2" to:"65536"`

	Switch struct {
		switchNode
	} `yaml:"switch"`
	Edge   ast.Node `yaml:"edge"`
	Global ast.Node `yaml:"global"`
	Link

	m     *yaml.Mapping
	edges Link     // of what hangs there
	far   Link     // of global links
	of    []string // what hangs there
	sides []int
}

// kindKeys are those that only some kinds have; the first are needed.
var kindKeys = map[string][]string{
	"fat-tree":  {"k", "radix", "levels", "oversubscription"},
	"torus":     {"dims", "wrap", "p"},
	"dragonfly": {"p", "a", "h", "groups", "global"},
}

// topology reads one.
func (l *loader) topology(n ast.Node) {
	before := l.Faults()
	x := topology{Wrap: true, P: 1, Levels: 3, Over: 1}
	x.Switch.Peers = true
	if x.m = l.Decode(n, "topology", &x); x.m == nil || l.Faults() > before {
		return
	}
	l.ofKind(&x)
	x.edges, x.far = x.Link, x.Link
	for _, of := range []struct {
		key string
		to  *Link
	}{{"edge", &x.edges}, {"global", &x.far}} {
		if n := x.m.Get(of.key); n != nil {
			*of.to = Link{}
			l.Decode(n, x.m.What+": "+of.key, of.to)
		}
	}
	for _, n := range yaml.List(l, x.Of) {
		x.of = append(x.of, l.group(n, x.m.What+": of")...)
	}
	if l.Faults() > before {
		return
	}
	switch x.Kind {
	case "fat-tree":
		l.fatTree(&x)
	case "torus":
		l.torus(&x)
	default:
		l.dragonfly(&x)
	}
}

// ofKind refuses keys of other kinds.
func (l *loader) ofKind(x *topology) {
	for kind, keys := range kindKeys {
		for _, key := range keys {
			if x.m.Has(key) && !slices.Contains(kindKeys[x.Kind], key) {
				l.wrong(x.m.At(key), "%s: %s: a %s has none; it is of a %s", x.m.What, key, x.Kind, kind)
			}
		}
	}
}

// room checks that all that hangs there has a place, and that there may be so many switches.
func (l *loader) room(x *topology, what string, places, switches int) bool {
	switch {
	case len(x.of) > places:
		l.wrong(x.m.At("of"), "%s: %d hang at %s, which has %d places", x.m.What, len(x.of), what, places)
	case switches > maxSwitches-len(l.out.Switches):
		l.wrong(x.m.Node, "%s: %s has %d switches: more than %d in all", x.m.What, what, switches, maxSwitches)
	default:
		return true
	}
	return false
}

// add adds switches by their names, which are a group, too.
func (l *loader) add(x *topology, group string, names []string) bool {
	if !nameRule.MatchString(x.Name) || len(x.Name) > maxName/2 {
		l.wrong(x.m.At("name"), "%s: a name is at most %d letters, digits and _, and begins with no digit", x.m.What, maxName/2)
		return false
	}
	if !l.enter(x.m, x.m.At("name"), group, names) {
		return false
	}
	for _, name := range names {
		s := x.Switch.switchNode
		s.Name = name
		l.out.Switches = append(l.out.Switches, s)
	}
	return true
}

// wire joins two by a link like another.
func (l *loader) wire(x *topology, a, b string, like Link) bool {
	like.From, like.To = a, b
	return l.join(x.m.Node, like)
}

// capped is a product that is no more than a number that is more than there may be of anything.
func capped(factors ...int) int {
	out := 1
	for _, f := range factors {
		out = min(out*f, 1<<24)
	}
	return out
}

// fatTree makes one of switches with as many ports: of each, but those at the top, half go up; of leaves one in 1 +
// oversubscription. A switch of level i, from 1, has a number that is two: which of the trees below the top it is in (x),
// and which of those of that tree (y). Trees without anything are left out.
func (l *loader) fatTree(x *topology) {
	if x.m.Has("k") == x.m.Has("radix") || x.m.Has("k") && x.m.Has("levels") {
		l.wrong(x.m.Node, "%s: want radix and levels, or k, which is the radix of a tree of three", x.m.What)
		return
	}
	radix := max(x.K, x.Radix)
	up := radix / (1 + x.Over)
	switch {
	case x.Levels > 1 && radix%(1+x.Over) != 0:
		l.wrong(x.m.Node, "%s: radix %d and oversubscription %d: want a radix that %d divides", x.m.What, radix, x.Over, 1+x.Over)
		return
	case x.Levels > 2 && radix%2 != 0:
		l.wrong(x.m.Node, "%s: radix %d: want an even one", x.m.What, radix)
		return
	}
	down, ups := make([]int, x.Levels+1), make([]int, x.Levels+2) // by level; ups of the level below
	for i := 1; i <= x.Levels; i++ {
		down[i], ups[i] = radix/2, radix/2
	}
	down[1], ups[1] = radix-up, 1
	if x.Levels > 1 {
		ups[2] = up
	}
	down[x.Levels] = radix
	total, y := 0, 1
	trees, each := make([]int, x.Levels+1), make([]int, x.Levels+1)
	for i, below := 1, 1; i <= x.Levels; i++ {
		below, y = capped(below, down[i]), capped(y, ups[i])
		trees[i], each[i] = (max(len(x.of), 1)-1)/below+1, y
		total = min(total+capped(trees[i], y), 1<<24)
	}
	if !l.room(x, fmt.Sprintf("a fat tree of radix %d and %d levels", radix, x.Levels), capped(down[1:]...), total) {
		return
	}
	name := func(level, k int) string { return fmt.Sprintf("%s%d_%d", x.Name, level, k) }
	for i := 1; i <= x.Levels; i++ {
		names := make([]string, trees[i]*each[i])
		for k := range names {
			names[k] = name(i, k)
		}
		if !l.add(x, fmt.Sprint(x.Name, i), names) {
			return
		}
	}
	for k, one := range x.of {
		if !l.wire(x, one, name(1, k/down[1]), x.edges) {
			return
		}
	}
	for i := 1; i < x.Levels; i++ {
		for k := range trees[i] * each[i] {
			for u := range ups[i+1] {
				above := k/each[i]/down[i+1]*each[i+1] + k%each[i]*ups[i+1] + u
				if !l.wire(x, name(i, k), name(i+1, above), x.Link) {
					return
				}
			}
		}
	}
}

// torus makes a switch for each place of a grid, of which the first dimension counts fastest, and links between
// neighbours; where it wraps, between the last and the first of more than two, too.
func (l *loader) torus(x *topology) {
	for _, n := range x.Dims {
		side, ok := l.Number(n, x.m.What+": dims", `from:"1" to:"65536"`)
		if !ok {
			return
		}
		x.sides = append(x.sides, int(side))
	}
	if len(x.sides) == 0 || len(x.sides) > maxDims {
		l.wrong(x.m.At("dims"), "%s: dims: want the sides of 1 to %d dimensions, as in [16, 8, 8]", x.m.What, maxDims)
		return
	}
	n := capped(x.sides...)
	if !l.room(x, fmt.Sprintf("a torus of %s", strings.Trim(fmt.Sprint(x.sides), "[]")), capped(n, x.P), n) {
		return
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(x.Name, i)
	}
	if !l.add(x, x.Name, names) {
		return
	}
	l.out.grids = append(l.out.grids, &grid{first: len(l.out.Switches) - n, switches: n, sides: x.sides, wrap: x.Wrap, latency: x.Link.Latency})
	for k, one := range x.of {
		if !l.wire(x, one, names[k/x.P], x.edges) {
			return
		}
	}
	for i := range names {
		stride := 1
		for _, side := range x.sides {
			at, next := i/stride%side, i+stride
			if at == side-1 {
				next = i - at*stride
			}
			if (at < side-1 || x.Wrap && side > 2) && !l.wire(x, names[i], names[next], x.Link) {
				return
			}
			stride *= side
		}
	}
}

// dragonfly makes groups of a switches, each of which has links to all others of its group, p places and h global links.
// Global link c of group i, h of each switch in their order, leads to group i + c + 1, beginning again from the first
// after the last; of fewer groups than a h + 1 some lead there several times.
func (l *loader) dragonfly(x *topology) {
	links := x.A * x.H // of a group
	groups := x.Groups
	if groups == 0 {
		groups = links + 1
	}
	switch {
	case !x.m.Has("a") || !x.m.Has("h"):
		l.wrong(x.m.Node, "%s: want p, a and h: places, switches of a group, and global links of a switch", x.m.What)
		return
	case groups > links+1:
		l.wrong(x.m.At("groups"), "%s: groups: %d: with a x h = %d global links each reaches %d others", x.m.What, groups, links, links)
		return
	case x.H > groups-1:
		l.wrong(x.m.Node, "%s: h: %d: of %d groups a switch has at most %d others to reach", x.m.What, x.H, groups, groups-1)
		return
	}
	if !l.room(x, fmt.Sprintf("a dragonfly of %d groups", groups), capped(groups, x.A, x.P), capped(groups, x.A)) {
		return
	}
	name := func(group, s int) string { return fmt.Sprintf("%s%d_%d", x.Name, group, s) }
	names := make([]string, groups*x.A)
	for k := range names {
		names[k] = name(k/x.A, k%x.A)
	}
	if !l.add(x, x.Name, names) {
		return
	}
	for k, one := range x.of {
		if !l.wire(x, one, names[k/x.P], x.edges) {
			return
		}
	}
	for g := range groups {
		for s := range x.A {
			for o := s + 1; o < x.A; o++ {
				if !l.wire(x, name(g, s), name(g, o), x.Link) {
					return
				}
			}
		}
		for c := range links {
			round, to := c/(groups-1), (g+c%(groups-1)+1)%groups
			back := round*(groups-1) + (g-to+groups)%groups - 1
			if g < to && back < links && !l.wire(x, name(g, c/x.H), name(to, back/x.H), x.far) {
				return
			}
		}
	}
}
