package wizard_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/wizard"
)

func TestWrite(t *testing.T) {
	f := files(t)
	f.Dir = filepath.Join(f.Dir, "below") // no parent yet
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	w, err := f.Write(secret.New(token), "the config\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-rw------- Caddyfile", "-rw------- cf_token", "drwx------ ."}
	if diff := cmp.Diff(want, modes(t, f.Dir)); diff != "" {
		t.Error(diff)
	}
	if read(t, w.Config) != "the config\n" || read(t, w.Token) != token+"\n" || w.Config != f.ConfigFile() || w.Token != f.TokenFile() {
		t.Errorf("%+v", w)
	}
	if s, notice, err := secret.Read(w.Token); err != nil || notice != "" || s.Reveal() != token {
		t.Errorf("the token cannot be read back: %v", err)
	}
}

func TestWriteOverOldFiles(t *testing.T) {
	f := files(t)
	if _, err := f.Write(secret.New("former"), "former\n"); err != nil {
		t.Fatal(err)
	}
	before := modes(t, f.Dir)
	if _, err := f.Write(secret.New(token), "new\n"); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Fatalf("without --force: %v", err)
	}
	if diff := cmp.Diff(before, modes(t, f.Dir)); diff != "" || read(t, f.ConfigFile()) != "former\n" || read(t, f.TokenFile()) != "former\n" {
		t.Error("the refusal left traces: " + diff)
	}
	if err := os.Chmod(f.TokenFile(), 0o644); err != nil {
		t.Fatal(err)
	}
	f.Force = true
	w, err := f.Write(secret.New(token), "new\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-rw------- Caddyfile", "-rw------- Caddyfile.old-1", "-rw------- cf_token", "-rw------- cf_token.old-1", "drwx------ ."}
	if diff := cmp.Diff(want, modes(t, f.Dir)); diff != "" {
		t.Error(diff)
	}
	if len(w.Kept) != 2 || read(t, w.Kept[0]) != "former\n" || read(t, w.Kept[1]) != "former\n" || read(t, f.ConfigFile()) != "new\n" {
		t.Errorf("%+v", w)
	}
	// What has not changed is not kept once more; what has, under a name of its own.
	if w, err = f.Write(secret.New(token), "newer\n"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(f.Dir, "Caddyfile.old-2")}, w.Kept); diff != "" || read(t, f.Dir+"/Caddyfile.old-1") != "former\n" {
		t.Error(diff)
	}
}

func TestWriteReplacesALinkNotItsTarget(t *testing.T) {
	f := files(t)
	f.Force = true
	if err := os.Mkdir(f.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	write(t, target, "precious\n", 0o644)
	if err := os.Symlink(target, f.TokenFile()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(secret.New(token), "new\n"); err != nil {
		t.Fatal(err)
	}
	if read(t, target) != "precious\n" || read(t, f.TokenFile()) != token+"\n" {
		t.Error("the token went through the link")
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the target's mode is %v", info.Mode())
	}
}

func TestRefusedDirectories(t *testing.T) {
	made := func(mode os.FileMode) string {
		dir := private(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "", 0o600)
	occupied := made(0o700)
	if err := os.Mkdir(filepath.Join(occupied, "Caddyfile"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, dir, err string }{
		{"others may read", made(0o755), ""},
		{"others may write", made(0o702), "may be written by others"},
		{"the group may write", made(0o770), "may be written by others"},
		{"everybody's", made(0o777 | os.ModeSticky), "may be written by others"},
		{"a file", file, "is not a directory"},
		{"below a file", file + "/x", "not a directory"},
		{"relative", "edgeward", "absolute"},
		{"empty", "", "absolute"},
		{"with a placeholder", "/tmp/{env.HOME}", "cannot hold"},
		{"a directory for a Caddyfile", occupied, "is a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := wizard.Files{Dir: tc.dir, Force: true}
			if err := f.Check(); (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("check: %v, want %q", err, tc.err)
			}
			if _, err := f.Write(secret.New(token), "x"); (err == nil) != (tc.err == "") {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// TestOwners needs root, as the flag does.
func TestOwners(t *testing.T) {
	f := files(t)
	f.System, f.User = true, "nobody"
	if os.Geteuid() != 0 {
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), "needs root") {
			t.Errorf("without root: %v", err)
		}
		return
	}
	w, err := f.Write(secret.New(token), "x")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-rw------- cf_token", "-rw-r----- Caddyfile", "drwxr-x--- ."}
	if diff := cmp.Diff(want, modes(t, f.Dir)); diff != "" {
		t.Error(diff)
	}
	tokenOwner, configOwner, dirOwner := stat(t, w.Token), stat(t, w.Config), stat(t, f.Dir)
	if tokenOwner.Uid == 0 || configOwner.Uid != 0 || dirOwner.Uid != 0 || configOwner.Gid != tokenOwner.Gid || dirOwner.Gid != tokenOwner.Gid {
		t.Errorf("owners: token %d:%d, Caddyfile %d:%d, directory %d:%d", tokenOwner.Uid, tokenOwner.Gid, configOwner.Uid, configOwner.Gid, dirOwner.Uid, dirOwner.Gid)
	}
	f.User = "no-such-user"
	if err := f.Check(); err == nil || !strings.Contains(err.Error(), "--user") {
		t.Errorf("no such user: %v", err)
	}
	// A directory of somebody else's: they could put another file into its place.
	theirs := files(t)
	if err := os.Mkdir(theirs.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(theirs.Dir, int(tokenOwner.Uid), int(tokenOwner.Gid)); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Check(); err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("somebody else's directory: %v", err)
	}
}

func stat(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t)
}
