package tests

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// documents are what strangers read.
func documents(t *testing.T) []string {
	docs, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("../docs/design/*.md")
	require.NoError(t, err)
	return append(append(docs, pages...), "../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../SECURITY.md")
}

// fence is a fenced block of a document. Its mark is the comment in the line before,
// which says how it is tested:
//
//	<!-- not run: REASON -->   commands that are not run, and why
//	<!-- file: PATH -->        what the next commands find there
//	<!-- from: PATH -->        code that is in that file, word for word, but for what is left out
//	<!-- fragment: REASON -->  code that is nowhere else, and why
type fence struct {
	doc, lang, mark string
	line            int
	text            []string
}

func fences(t *testing.T, doc string) (out []fence) {
	text, err := os.ReadFile(doc)
	require.NoError(t, err)
	mark := ""
	var in *fence
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case in != nil && strings.HasPrefix(line, "```"):
			out = append(out, *in)
			in, mark = nil, ""
		case in != nil:
			in.text = append(in.text, line)
		case strings.HasPrefix(line, "```"):
			in = &fence{doc: doc, lang: strings.TrimPrefix(line, "```"), mark: mark, line: i + 1}
		case strings.HasPrefix(line, "<!-- "):
			mark = strings.TrimSuffix(strings.TrimPrefix(line, "<!-- "), " -->")
		case line != "":
			mark = ""
		}
	}
	require.Nil(t, in, "%s: a fence without an end", doc)
	return out
}

// tree is a copy of the files under version control, with bin/godwit built.
func tree(t *testing.T) string {
	dir := t.TempDir()
	copied := exec.Command("bash", "-c", `git ls-files -z --cached --others --exclude-standard | tar -c --null -T - --ignore-failed-read 2>/dev/null | tar -x -C "$0"`, dir)
	copied.Dir = ".."
	if out, err := copied.CombinedOutput(); err != nil {
		t.Skipf("no checkout: %v: %s", err, out)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "bin/godwit"), "./cmd/godwit")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// TestCommandsOfTheDocumentsRun runs every command in README and docs that is not marked,
// each document in a fresh tree, and finds the lines shown below a command, or what they
// begin with, in what it printed.
func TestCommandsOfTheDocumentsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs for a minute")
	}
	fresh := tree(t)
	for _, doc := range documents(t) {
		all := fences(t, doc)
		t.Run(filepath.Base(doc), func(t *testing.T) {
			dir := ""
			for _, f := range all {
				where := fmt.Sprintf("%s:%d", f.doc, f.line)
				if file, ok := strings.CutPrefix(f.mark, "file: "); ok {
					require.NotEmpty(t, dir, where)
					require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
					require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Join(f.text, "\n")+"\n"), 0o600))
				}
				if f.lang != "console" {
					continue
				}
				if reason, ok := strings.CutPrefix(f.mark, "not run: "); ok {
					require.NotEmpty(t, reason, where)
					continue
				}
				if dir == "" {
					dir = t.TempDir()
					require.NoError(t, os.CopyFS(dir, os.DirFS(fresh)))
				}
				f.run(t, dir, where)
			}
		})
	}
}

// run runs the commands of a fence.
func (f *fence) run(t *testing.T, dir, where string) {
	printed := ""
	for _, line := range f.text {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			if want := strings.TrimSpace(strings.TrimSuffix(line, "…")); want != "" {
				require.Contains(t, printed, want, where)
			}
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GODWIT_LIB=", "POCL_DEVICES=pthread pthread")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		start := time.Now()
		err := cmd.Run()
		cancel()
		require.NoError(t, err, "%s: %s\n%s", where, command, &out)
		t.Logf("%s: %.1f s: %s", where, time.Since(start).Seconds(), command)
		printed = out.String()
	}
}

// TestCodeOfTheDocumentsIsCompiledSomewhere finds every line of Go in the documents in the
// file that the document names.
func TestCodeOfTheDocumentsIsCompiledSomewhere(t *testing.T) {
	for _, doc := range documents(t) {
		for _, f := range fences(t, doc) {
			where := fmt.Sprintf("%s:%d", f.doc, f.line)
			if f.lang != "go" || strings.HasPrefix(f.mark, "file: ") {
				continue
			}
			if reason, ok := strings.CutPrefix(f.mark, "fragment: "); ok {
				require.NotEmpty(t, reason, where)
				continue
			}
			file, ok := strings.CutPrefix(f.mark, "from: ")
			require.True(t, ok, "%s: which file is this from?", where)
			source, err := os.ReadFile(filepath.Join("..", file))
			require.NoError(t, err, where)
			rest := squeezed(string(source))
			for _, line := range f.text {
				line = squeezed(line)
				if line == "" || strings.Contains(line, "…") {
					continue
				}
				require.Contains(t, rest, line, "%s: not in %s", where, file)
			}
		}
	}
}

// squeezed is text with single spaces.
func squeezed(s string) string { return strings.Join(strings.Fields(s), " ") }

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noWord  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksOfTheDocumentsLeadSomewhere looks up every relative link, and its heading.
func TestLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := doc
			if path != "" {
				target = filepath.Join(filepath.Dir(doc), path)
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s: link %s", doc, m[1])
			if anchor != "" && strings.HasSuffix(target, ".md") {
				require.Contains(t, anchors(t, target), anchor, "%s: link %s", doc, m[1])
			}
		}
	}
}

// anchors are a document's headings as links name them.
func anchors(t *testing.T, doc string) (out []string) {
	text, err := os.ReadFile(doc)
	require.NoError(t, err)
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		a := noWord.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(a, " ", "-"))
	}
	return out
}
