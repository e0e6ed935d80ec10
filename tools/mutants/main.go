// Command mutants draws small faults by a seed, builds the tests once with all of them in place, each
// behind a switch that an environment variable turns, and says how many of them a test finds. First
// all tests run without a fault and note which faults' places they reach. Then, for each fault, those that reach its
// place run, its own package's first, until one fails. The tree is not written to: files
// with faults are read by the go command in place of the real ones.
//
// usage: go run -C tools ./mutants [-n 300] [-seed 31] [-j 2] [-dir DIR] [-suites ./tests/metamorphic] PACKAGE...
//
// A fault dies "by" the package whose tests fail or take too long. It "lives" where all of them pass,
// "unreached" where none comes to its place, is "unbuilt" where the code does not compile with it, and
// "constant" where a declaration needs its value: there is no switch for it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/tools/go/packages"
)

var (
	count  = flag.Int("n", 300, "how many faults are drawn")
	seed   = flag.Uint64("seed", 31, "the drawing's seed")
	jobs   = flag.Int("j", 2, "how many faults are tried at a time")
	dir    = flag.String("dir", "..", "the module's `folder`")
	suites = flag.String("suites", "./tests/metamorphic", "further packages whose tests run, by commas")
	skip   = flag.String("skip", "", "a `pattern` of tests that are left out")
	memory = flag.Int("memory", 8, "how much memory a run of tests may take for data, in `GiB`; 0 is any")
)

func main() {
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(patterns []string) error {
	cfg := &packages.Config{Mode: packages.LoadSyntax, Dir: *dir} //nolint:staticcheck // its parts are many
	pkgs, err := packages.Load(cfg, patterns...)
	if err != nil {
		return err
	}
	all, err := sites(pkgs)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(*seed, *seed))
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	drawn := all[:min(*count, len(all))]
	fmt.Printf("%d of %d sites\n", len(drawn), len(all))
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	overlay, err := write(tmp, drawn)
	if err != nil {
		return err
	}
	var list []*suite
	for _, p := range append(slices.Clone(patterns), strings.Split(*suites, ",")...) {
		s := &suite{pkg: strings.TrimPrefix(p, "./"), bin: filepath.Join(tmp, fmt.Sprintf("%d.test", len(list)))}
		if err := s.build(overlay); err != nil {
			return err
		}
		list = append(list, s)
	}
	for _, s := range list {
		if err := s.dry(tmp); err != nil {
			return err
		}
	}
	slices.SortStableFunc(list, func(a, b *suite) int { return int(a.takes - b.takes) })
	tryAll(drawn, list)
	return nil
}

// tryAll tries the faults and prints what became of each.
func tryAll(drawn []*site, list []*suite) {
	var wg sync.WaitGroup
	next := make(chan *site)
	for range *jobs {
		wg.Go(func() {
			for m := range next {
				if m.verdict == "" {
					m.verdict = try(m, list)
				}
				fmt.Printf("%-10s %d %s\n", m.verdict, m.id, m.text)
			}
		})
	}
	for _, m := range drawn {
		next <- m
	}
	close(next)
	wg.Wait()
	sum := make(map[string]int)
	for _, m := range drawn {
		sum[strings.Fields(m.verdict)[0]]++
	}
	fmt.Println(sum)
}

// write writes the files with faults, and the list of them that the go command takes.
func write(tmp string, drawn []*site) (overlay string, err error) {
	replace := make(map[string]string)
	put := func(real, text string) error {
		name := filepath.Join(tmp, fmt.Sprintf("%d.go", len(replace)))
		replace[real] = name
		return os.WriteFile(name, []byte(text), 0o600)
	}
	files := make(map[*file][]*site)
	for i, m := range drawn {
		if m.id = i + 1; m.verdict == "" && !m.compiles() {
			m.verdict = "unbuilt"
		}
		if m.verdict == "" {
			files[m.file] = append(files[m.file], m)
		}
	}
	for f, in := range files {
		if err := put(f.name, f.text(in)); err != nil {
			return "", err
		}
		if switches := filepath.Join(filepath.Dir(f.name), "mutants_switch.go"); replace[switches] == "" {
			if err := put(switches, fmt.Sprintf(switchFile, f.pkg.Name, len(drawn)+1)); err != nil {
				return "", err
			}
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(tmp, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// A suite is the tests of one package, built.
type suite struct {
	pkg, bin string
	takes    time.Duration
	reached  map[int]bool // places of faults
}

func (s *suite) build(overlay string) error {
	c := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.bin, "./"+s.pkg)
	c.Dir = *dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", s.pkg, err, out)
	}
	return nil
}

// dry runs the tests without a fault, which they must pass.
func (s *suite) dry(tmp string) error {
	if _, err := os.Stat(s.bin); err != nil {
		return nil // it has no tests
	}
	notes := filepath.Join(tmp, "reached")
	if err := os.WriteFile(notes, nil, 0o600); err != nil {
		return err
	}
	began := time.Now()
	if out, err := s.run(-1, 10*time.Minute, notes); err != nil {
		return fmt.Errorf("%s without a fault: %w\n%s", s.pkg, err, out)
	}
	s.takes, s.reached = time.Since(began), make(map[int]bool)
	text, err := os.ReadFile(notes)
	for _, line := range strings.Fields(string(text)) {
		var id int
		if _, err := fmt.Sscan(line, &id); err != nil {
			return err
		}
		s.reached[id] = true
	}
	fmt.Printf("%s: %.1f s, reaches %d\n", s.pkg, s.takes.Seconds(), len(s.reached))
	return err
}

// run runs the tests with a fault.
func (s *suite) run(id int, limit time.Duration, notes string) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer stop()
	args := []string{"-c", `[ "$0" = 0 ] || ulimit -d $(($0 << 20)); exec "$@"`, fmt.Sprint(*memory), s.bin,
		"-test.failfast", "-test.timeout", limit.String(), "-test.skip", *skip}
	if *skip == "" {
		args = args[:len(args)-2]
	}
	c := exec.CommandContext(ctx, "sh", args...)
	c.Dir = filepath.Join(*dir, s.pkg)
	c.Env = append(os.Environ(), fmt.Sprintf("MUTANT=%d", id), "MUTANTS_REACHED="+notes)
	c.WaitDelay = time.Second
	return c.CombinedOutput()
}

// try runs the tests that reach m's place.
func try(m *site, list []*suite) string {
	verdict := "unreached"
	own := func(s *suite) bool { return strings.HasSuffix(m.file.pkg.PkgPath, "/"+s.pkg) }
	for _, mine := range []bool{true, false} {
		for _, s := range list {
			if own(s) != mine || !s.reached[m.id] {
				continue
			}
			if _, err := s.run(m.id, 10*s.takes+10*time.Second, ""); err != nil {
				return "dies by " + s.pkg
			}
			verdict = "lives"
		}
	}
	return verdict
}
