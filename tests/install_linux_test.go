package tests

import (
	"debug/buildinfo"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsInstalledWorksForOthers installs what make has built, uses it as a user who
// may write nothing there, and takes it away again. `make installed` runs it.
func TestWhatIsInstalledWorksForOthers(t *testing.T) {
	if os.Getenv("GODWIT_TEST_INSTALL") == "" {
		t.Skip("make installed runs this, once it has built what is installed")
	}
	dest, err := os.MkdirTemp("", "godwit-installed") // t.TempDir's is closed to others
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dest)) }()
	require.NoError(t, os.Chmod(dest, 0o755))
	home, err := os.MkdirTemp("", "godwit-home") // theirs, where PoCL keeps what it builds
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(home)) }()
	require.NoError(t, os.Chmod(home, 0o777))
	mk := func(target string) {
		out, err := exec.Command("make", "-C", "..", target, "DESTDIR="+dest, "PREFIX=/usr").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	mk("install")
	usr := filepath.Join(dest, "usr")
	other := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+filepath.Join(usr, "bin")+":"+os.Getenv("PATH"), "MANPATH="+filepath.Join(usr, "share/man"))
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v\n%s", name, args, out)
		return string(out)
	}
	godwit := filepath.Join(usr, "bin", "godwit")
	var v struct{ Version string }
	require.NoError(t, json.Unmarshal([]byte(other(godwit, "version", "--json")), &v))
	require.Regexp(t, `^\d+\.\d+\.\d+$`, v.Version)
	require.Contains(t, other(godwit, "run", "--example", "overlap"), "the least possible")
	require.Contains(t, other(godwit, "replay", "--example", "resnet50", "--repeats", "0"), "bestfit")
	require.Contains(t, other(godwit, "exec", "--devices", "2", "--", "clinfo", "-l"), "Godwit")
	require.Contains(t, other("bash", "-c", "source "+filepath.Join(usr, "share/bash-completion/completions/godwit")+" && complete -p godwit"), "__start_godwit")
	page, err := os.ReadFile(filepath.Join(usr, "share/man/man1/godwit-run.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), "--example")
	if _, err := exec.LookPath("man"); err == nil {
		require.Contains(t, other("man", "godwit-run"), "godwit-run")
	}
	vendor, err := os.ReadFile(filepath.Join(usr, "share/godwit/vendors/godwit.icd"))
	require.NoError(t, err)
	require.Equal(t, "/usr/lib/libgodwit.so\n", string(vendor), "where it will be, without DESTDIR")
	licences, err := os.ReadFile(filepath.Join(usr, "share/doc/godwit/LICENCES"))
	require.NoError(t, err)
	info, err := buildinfo.ReadFile(godwit)
	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	for _, d := range info.Deps {
		require.Contains(t, string(licences), d.Path+" "+d.Version+"\n===")
	}
	require.Contains(t, string(licences), "uPlot")
	here, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, file := range []string{godwit, filepath.Join(usr, "lib", "libgodwit.so")} {
		binary, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(binary), here+"/", "%s names the folder where it was built", file)
	}

	mk("uninstall")
	var left []string
	require.NoError(t, filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	}))
	require.Empty(t, left)
}
