package writeback

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// partialDir is where a file is kept beside its place until all are there.
const partialDir = ".edgeward-partial"

// tempDir is where a file is while it comes in. What a kill leaves in it goes with it.
const tempDir = ".edgeward-temp"

// silence is after how long rsync gives up an end that says nothing. Reading through a
// large file for its checksum takes time, too.
const silence = 10 * time.Minute

// common are the arguments of each run here.
func common(exclude string) []string {
	args := []string{
		// By default rsync compares times by the second, and misses a second write in it.
		"-rlptSH", "--modify-window=-1", "--numeric-ids", "--no-human-readable", "--partial-dir=" + partialDir,
		"--timeout=" + strconv.Itoa(int(silence.Seconds())), "--from0", "--exclude-from=" + exclude,
	}
	if os.Geteuid() == 0 {
		args = append(args, "-goDAX")
	}
	return args
}

// The arguments that rsync gives to the other side, as versions 3.1.3 to 3.5 do: see
// server_options in its options.c. What leads out of the directory, follows links,
// deletes or reads is not among them.
var (
	shortArgs = regexp.MustCompile(`^-[unlHogDtpAXrcRSd]{1,40}e\d{0,3}\.[A-Za-z]{0,20}$`)
	longArgs  = []*regexp.Regexp{
		regexp.MustCompile(`^--log-format=(%i|X)$`),
		regexp.MustCompile(`^(-@|--modify-window=)-1$`),
		regexp.MustCompile(`^--bwlimit=\d{1,12}$`),
		regexp.MustCompile(`^--timeout=\d{1,6}$`),
		regexp.MustCompile(`^--(delay-updates|numeric-ids|no-implied-dirs|from0)$`),
	}
	// In a dry run it only lists.
	deleteArgs = regexp.MustCompile(`^--delete(-before|-during|-delay|-after)?$`)
)

// serverArgs makes the arguments of the rsync that is run here from those that the
// other side asks for. undo is where what is replaced goes.
func serverArgs(l launch, undo string) ([]string, error) {
	refuse := func(arg string) error {
		return fmt.Errorf("rsync is asked to run with %.80q, which a writeback needs not", arg)
	}
	n := len(l.Args)
	if n < 4 || l.Args[0] != "--server" || l.Args[n-2] != "." || l.Args[n-1] != "./" {
		return nil, refuse(strings.Join(l.Args, " "))
	}
	short, long := l.Args[1], l.Args[2:n-2]
	if !shortArgs.MatchString(short) {
		return nil, refuse(short)
	}
	flags, _, _ := strings.Cut(short, "e")
	dry := strings.Contains(flags, "n")
	if dry != (l.Step == scanning || l.Step == verifying) {
		return nil, refuse(short)
	}
	out := []string{"--server", short}
	for i := 0; i < len(long); i++ {
		arg := long[i]
		switch {
		case arg == "--partial-dir" && i+1 < len(long) && long[i+1] == partialDir:
			i++
		case arg == "--partial-dir="+partialDir:
		case deleteArgs.MatchString(arg) && l.Step == scanning:
			out = append(out, arg)
		case slices.ContainsFunc(longArgs, func(r *regexp.Regexp) bool { return r.MatchString(arg) }):
			out = append(out, arg)
		default:
			return nil, refuse(arg)
		}
	}
	out = append(out, "--partial-dir="+partialDir)
	if !dry {
		out = append(out, "--update", "--temp-dir="+tempDir, "--backup", "--backup-dir="+undo)
	}
	return append(out, ".", "./"), nil
}

// local reports whether a name is one below the data, in its plain form.
func local(name string) bool {
	return name != "" && name != "." && filepath.IsLocal(name) && filepath.Clean(name) == name && !strings.Contains(name, "\x00")
}
