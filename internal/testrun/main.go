// Command testrun runs go test and says at the end what came of it: the closing
// line of each package, and one line that counts the tests.
//
//	go run ./internal/testrun -race -shuffle=on ./...
//
// Its arguments are those of go test. While it runs it prints the output of each
// test that failed, the reason of each that was skipped, and nothing else. Tests
// and their subtests count alike; a package that fails without a failed test, for
// it does not compile or panics, counts as one failure.
//
// It fails when go test does and, with CI=true, when a test was skipped: there a
// skip would be a promise that nobody has looked at.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Getenv("CI") == "true"))
}

// run returns the exit code.
func run(args []string, out io.Writer, strict bool) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(out, "starting go test:", err)
		return 1
	}
	t := newTally(out)
	t.read(events)
	failed := cmd.Wait() != nil
	t.end()
	switch {
	case failed || t.failed > 0 || t.passed == 0:
		return 1
	case strict && t.skipped > 0:
		fmt.Fprintln(out, "a skipped test fails the run, because CI is true")
		return 1
	}
	return 0
}

// event is one line of go test -json; see cmd/test2json and "go help buildjson".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// tally follows a run.
type tally struct {
	out                     io.Writer
	passed, failed, skipped int
	output                  map[string][]string // by package and test, until it is over
	lost                    map[string]bool     // packages with a failed test
	closing                 []string
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, output: map[string][]string{}, lost: map[string]bool{}}
}

func (t *tally) read(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			t.line(line)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Fprintln(t.out, "reading the output of go test:", err)
			t.failed++
			return
		}
	}
}

func (t *tally) line(line string) {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		fmt.Fprint(t.out, line) // not an event: go itself says something
		return
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(t.out, e.Output)
	case e.Test == "":
		t.pkg(e)
	default:
		t.test(e)
	}
}

func (t *tally) test(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		t.output[key] = append(t.output[key], e.Output)
		return
	case "pass":
		t.passed++
	case "fail":
		t.failed++
		t.lost[e.Package] = true
		fmt.Fprint(t.out, strings.Join(t.output[key], ""))
	case "skip":
		t.skipped++
		fmt.Fprint(t.out, strings.Join(t.output[key], ""))
	default:
		return
	}
	delete(t.output, key)
}

// pkg takes what a package says outside of its tests. Its last line is the one
// that go test prints without -json.
func (t *tally) pkg(e event) {
	switch e.Action {
	case "output":
		t.output[e.Package] = append(t.output[e.Package], e.Output)
		return
	case "fail":
		if !t.lost[e.Package] {
			t.failed++
		}
		t.crash(e.Package)
	case "pass", "skip":
	default:
		return
	}
	said := t.output[e.Package]
	delete(t.output, e.Package)
	if e.Action == "fail" {
		fmt.Fprint(t.out, strings.Join(said, ""))
	}
	if len(said) > 0 {
		last := said[len(said)-1]
		t.closing = append(t.closing, last)
		if e.Action != "fail" {
			fmt.Fprint(t.out, last)
		}
	}
}

// crash prints what tests said that never came to an end.
func (t *tally) crash(pkg string) {
	for key, said := range t.output {
		if strings.HasPrefix(key, pkg+" ") {
			fmt.Fprint(t.out, strings.Join(said, ""))
			delete(t.output, key)
		}
	}
}

func (t *tally) end() {
	fmt.Fprintln(t.out)
	for _, line := range t.closing {
		fmt.Fprint(t.out, line)
	}
	fmt.Fprintf(t.out, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
}
