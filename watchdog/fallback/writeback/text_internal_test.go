package writeback

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseItem(t *testing.T) {
	tests := map[string]struct {
		want item
		ok   bool
	}{
		"<f+++++++++ 7 a b":                       {item{'<', File, true, 7, "a b"}, true},
		"<fcst...... 12345678901 d/a":             {item{'<', File, false, 12345678901, "d/a"}, true},
		".d..t...... 4096 ./":                     {item{'.', Dir, false, 4096, "."}, true},
		"cd+++++++++ 4096 d/e/":                   {item{'c', Dir, true, 4096, "d/e"}, true},
		"cLc.t...... 4 link":                      {item{'c', Link, false, 4, "link"}, true},
		"hf+++++++++ 2 hard":                      {item{'h', File, true, 2, "hard"}, true},
		`<f+++++++++ 0 n\#012l`:                   {item{'<', File, true, 0, "n\nl"}, true},
		`<f+++++++++ 0 b\#134#012x`:               {item{'<', File, true, 0, `b\#012x`}, true},
		`<f+++++++++ 0 b\#999`:                    {item{'<', File, true, 0, `b\#999`}, true},
		"*deleting   0 d/gone":                    {item{'*', File, false, 0, "d/gone"}, true},
		"*deleting   0 d/":                        {item{'*', Dir, false, 0, "d"}, true},
		"cannot delete non-empty directory: x/y":  {item{'<', File, false, 0, "x/y"}, true},
		"<f+++++++++ 7 ../a":                      {},
		"<f+++++++++ 7 /etc/passwd":               {},
		`<f+++++++++ 7 a/\#056\#056/\#056\#056/b`: {},
		"<f+++++++++ 99999999999999999999 a":      {},
		"<f+++++++++ -1 a":                        {},
		">f+++++++++":                             {},
		"sending incremental file list":           {},
		"*deleting   0 ../x":                      {},
	}
	for line, test := range tests {
		got, err := parseItem(line)
		if err != nil && test.ok || err == nil && !test.ok {
			t.Errorf("%q: error is %v", line, err)
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(item{})); test.ok && diff != "" {
			t.Errorf("%q: %s", line, diff)
		}
	}
}

func FuzzParseItem(f *testing.F) {
	f.Add("<f+++++++++ 7 a")
	f.Add(`*deleting   0 a\#056`)
	f.Fuzz(func(t *testing.T, line string) {
		i, err := parseItem(line)
		if err == nil && i.name != "." && !local(i.name) {
			t.Errorf("%q is named by %q", i.name, line)
		}
	})
}

func TestParseProgress(t *testing.T) {
	tests := map[string]int64{
		"          2  14%    0.00kB/s    0:00:00 (xfr#4, to-chk=0/9)":     2,
		"          2  14%    0.00kB/s    0:00:00  ":                       2,
		"  123456789 100%  512.33MB/s    1:02:03 (xfr#1, ir-chk=1000/99)": 123456789,
		"1,234 1% 0.00kB/s 0:00:00":                                       -1,
		"-5  14%    0.00kB/s    0:00:00":                                  -1,
		"99999999999999999999 14% 0.00kB/s 0:00:00":                       -1,
		"2 14% 0.00kB/s 0:00:00 and more":                                 -1,
		"some text":                                                       -1,
	}
	for line, want := range tests {
		got, ok := parseProgress(line)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: got %d, %v", line, got, ok)
		}
	}
}

// What versions 3.2 and 3.5 ask for is taken, and nothing that leads elsewhere.
func TestServerArgs(t *testing.T) {
	dry, real := "-nlHogDtpAXrSe.iLsfxCIvu", "-ulHogDtpAXrSe.iLsfxCIvu"
	tests := map[string]struct {
		step step
		args []string
		ok   bool
	}{
		"scan":               {scanning, []string{"--server", dry, "--log-format=%i", "--timeout=600", "--partial-dir", partialDir, "--numeric-ids", ".", "./"}, true},
		"scan for deletions": {scanning, []string{"--server", dry, "--log-format=%i", "--delete-during", "--numeric-ids", ".", "./"}, true},
		"carry":              {carrying, []string{"--server", real, "--bwlimit=1000", "--partial-dir=" + partialDir, "--delay-updates", ".", "./"}, true},
		"carry for a scan":   {scanning, []string{"--server", real, ".", "./"}, false},
		"scan for a carry":   {carrying, []string{"--server", dry, ".", "./"}, false},
		"delete":             {carrying, []string{"--server", real, "--delete", ".", "./"}, false},
		"read":               {carrying, []string{"--server", "--sender", real, ".", "./"}, false},
		"read, later":        {carrying, []string{"--server", real, "--sender", ".", "./"}, false},
		"another place":      {carrying, []string{"--server", real, ".", "/etc"}, false},
		"two places":         {carrying, []string{"--server", real, ".", "../", "./"}, false},
		"below":              {carrying, []string{"--server", real, ".", "x"}, false},
		"follow links":       {carrying, []string{"--server", "-ulKrSe.iLsfxCIvu", ".", "./"}, false},
		"copy links":         {carrying, []string{"--server", "-ulLrSe.iLsfxCIvu", ".", "./"}, false},
		"in place":           {carrying, []string{"--server", real, "--inplace", ".", "./"}, false},
		"no short":           {carrying, []string{"--server", ".", "./"}, false},
		"another partial":    {carrying, []string{"--server", real, "--partial-dir", "/etc", ".", "./"}, false},
		"partial at the end": {carrying, []string{"--server", real, "--partial-dir", ".", "./"}, false},
		"temp":               {carrying, []string{"--server", real, "--temp-dir=/etc", ".", "./"}, false},
		"backup":             {carrying, []string{"--server", real, "--backup-dir=/etc", ".", "./"}, false},
		"log file":           {carrying, []string{"--server", real, "--log-file=/etc/passwd", ".", "./"}, false},
		"files":              {carrying, []string{"--server", real, "--files-from=/etc/passwd", ".", "./"}, false},
		"compare":            {carrying, []string{"--server", real, "--copy-dest=/etc", ".", "./"}, false},
		"daemon":             {carrying, []string{"--server", "--daemon", real, ".", "./"}, false},
		"secluded":           {carrying, []string{"--server", "-se.iLsfxCIvu", ".", "./"}, false},
		"a shell":            {carrying, []string{"--server", real, "--bwlimit=1;reboot", ".", "./"}, false},
		"two lines":          {carrying, []string{"--server", real, "--bwlimit=1\n--sender", ".", "./"}, false},
		"no rsync":           {carrying, []string{"sh", "-c", "reboot", "."}, false},
		"nothing":            {carrying, nil, false},
	}
	for name, test := range tests {
		got, err := serverArgs(launch{test.step, test.args}, "/undo")
		if (err == nil) != test.ok {
			t.Errorf("%s: error is %v", name, err)
			continue
		}
		if !test.ok {
			continue
		}
		line := strings.Join(got, " ")
		writes := test.step == carrying
		if strings.Contains(line, "--update --temp-dir=.edgeward-temp --backup --backup-dir=/undo") != writes || !strings.HasSuffix(line, " . ./") {
			t.Errorf("%s: got %s", name, line)
		}
	}
}

func FuzzServerArgs(f *testing.F) {
	f.Add("--server\x00-ulHogDtpAXrSe.iLsfxCIvu\x00--delay-updates\x00.\x00./", true)
	f.Fuzz(func(t *testing.T, args string, write bool) {
		l := launch{scanning, strings.Split(args, "\x00")}
		if write {
			l.Step = carrying
		}
		got, err := serverArgs(l, "/undo")
		if err != nil {
			return
		}
		for _, arg := range got[2:] {
			for _, bad := range []string{"sender", "daemon", "/", "inplace", "files-from", "copy", "link", "log-file", "temp"} {
				if strings.Contains(arg, bad) && !slices.Contains([]string{"./", "--backup-dir=/undo", "--temp-dir=" + tempDir}, arg) {
					t.Errorf("%q is taken: %q", arg, got)
				}
			}
		}
	})
}

func TestLiteral(t *testing.T) {
	for name, want := range map[string]string{
		"a": "/a", `a\b`: `/a\b`, "a*": `/a\*`, `a\*`: `/a\\\*`, "[a]?": `/\[a]\?`, "# a": "/# a",
	} {
		if got := literal(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestShell(t *testing.T) {
	if got, want := shell([]string{"/a b/c", `d"e`, "f'g"}), `"/a b/c" "d""e" "f'g"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q question
		r := bytes.NewReader(b)
		if readFrame(r, &q) == nil {
			var again bytes.Buffer
			if err := writeFrame(&again, q); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPortions(t *testing.T) {
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("%d-%s", i, strings.Repeat("x", i%4000)))
	}
	n := 0
	for _, part := range portions(names) {
		var frame bytes.Buffer
		if err := writeFrame(&frame, question{Stat: part}); err != nil {
			t.Fatal(err)
		}
		stats := make([]Stat, len(part))
		for i := range stats {
			stats[i] = Stat{Link, 1 << 60, cover, cover}
		}
		if err := writeFrame(&frame, reply{Stats: stats}); err != nil {
			t.Fatal(err)
		}
		for _, name := range part {
			if string(name) != names[n] {
				t.Fatalf("name %d is %q", n, name)
			}
			n++
		}
	}
	if n != len(names) {
		t.Errorf("%d of %d names", n, len(names))
	}
}
