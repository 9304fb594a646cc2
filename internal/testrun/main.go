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
// Many of the tests start real programs and watch them against the clock. One that
// fails beside all the others is run once more, by itself, and is told apart at the
// end if it passes then: it is unsteady. A data race, a crash and a package that does
// not compile get no second look.
//
// It fails when a test does and, with CI=true, when a test was skipped: there a
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
	"slices"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Getenv("CI") == "true"))
}

// run returns the exit code.
func run(args []string, out io.Writer, strict bool) int {
	t := newTally(out)
	code := goTest(t, args)
	again := t.unsteady()
	for _, f := range again {
		fmt.Fprintf(out, "once more, by itself: %s of %s\n", strings.Join(f.tests, ", "), f.pkg)
		goTest(t, f.args(args))
	}
	t.end()
	switch {
	case code != 0 && len(again) == 0, t.count(failed) > 0, t.count(passed) == 0:
		return 1
	case strict && t.count(skipped) > 0:
		fmt.Fprintln(out, "a skipped test fails the run, because CI is true")
		return 1
	}
	return 0
}

// goTest runs it once, and returns its exit code.
func goTest(t *tally, args []string) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(t.out, "starting go test:", err)
		t.broken["go test"] = true
		return 1
	}
	t.read(events)
	if cmd.Wait() != nil {
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

// result is what came of a test.
type result string

const (
	passed  result = "passed"
	failed  result = "failed"
	skipped result = "skipped"
)

// name is a test of a package.
type name struct{ pkg, test string }

// top is the test that a subtest belongs to.
func (n name) top() string {
	top, _, _ := strings.Cut(n.test, "/")
	return top
}

// tally follows the runs.
type tally struct {
	out     io.Writer
	results map[name]result   // the last word on each
	first   map[name]bool     // failed at first: top-level tests
	final   map[name]bool     // failed so that there is no second look
	broken  map[string]bool   // packages that failed without a failed test
	output  map[name][]string // until the test is over; of the package itself, test is ""
	order   []string          // packages, as they ended
	closing map[string]string
}

func newTally(out io.Writer) *tally {
	return &tally{
		out: out, results: map[name]result{}, first: map[name]bool{}, final: map[name]bool{},
		broken: map[string]bool{}, output: map[name][]string{}, closing: map[string]string{},
	}
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
			t.broken["go test"] = true
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
	n := name{e.Package, e.Test}
	switch e.Action {
	case "output":
		t.output[n] = append(t.output[n], e.Output)
		return
	case "pass":
		t.results[n] = passed
	case "fail":
		t.results[n] = failed
		t.fail(n, strings.Join(t.output[n], ""))
	case "skip":
		t.results[n] = skipped
		fmt.Fprint(t.out, strings.Join(t.output[n], ""))
	default:
		return
	}
	delete(t.output, n)
}

// fail prints what a failed test has said.
func (t *tally) fail(n name, said string) {
	fmt.Fprint(t.out, said)
	top := name{n.pkg, n.top()}
	t.first[top] = true
	t.final[top] = t.final[top] || isFinal(said)
}

// isFinal reports whether there is no second look after what was said: the tests
// behind a crash have not run, and a data race is one however often it is not seen.
func isFinal(said string) bool {
	return strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic: ") || strings.Contains(said, "fatal error: ")
}

// pkg takes what a package says outside of its tests. Its last line is the one
// that go test prints without -json.
func (t *tally) pkg(e event) {
	n := name{pkg: e.Package}
	switch e.Action {
	case "output":
		t.output[n] = append(t.output[n], e.Output)
		return
	case "fail":
		t.broken[e.Package] = t.broken[e.Package] || !t.hasFailed(e.Package)
		t.crash(e.Package)
	case "pass", "skip":
	default:
		return
	}
	said := t.output[n]
	delete(t.output, n)
	if e.Action == "fail" {
		fmt.Fprint(t.out, strings.Join(said, ""))
		t.broken[e.Package] = t.broken[e.Package] || isFinal(strings.Join(said, ""))
	}
	if len(said) == 0 {
		return
	}
	last := said[len(said)-1]
	if t.closing[e.Package] == "" {
		t.order = append(t.order, e.Package)
	}
	t.closing[e.Package] = last
	if e.Action != "fail" {
		fmt.Fprint(t.out, last)
	}
}

func (t *tally) hasFailed(pkg string) bool {
	for n := range t.first {
		if n.pkg == pkg {
			return true
		}
	}
	return false
}

// crash prints what tests said that never came to an end. Their package gets no
// second look.
func (t *tally) crash(pkg string) {
	for n, said := range t.output {
		if n.pkg == pkg && n.test != "" {
			fmt.Fprint(t.out, strings.Join(said, ""))
			delete(t.output, n)
			t.broken[pkg] = true
		}
	}
}

// failure is the failed tests of a package.
type failure struct {
	pkg   string
	tests []string
}

// unsteady are those that get a second look, each package by itself. What they
// failed with is forgotten: the second look counts.
func (t *tally) unsteady() (again []failure) {
	for _, pkg := range t.order {
		f := failure{pkg: pkg}
		for n := range t.first {
			if n.pkg == pkg {
				f.tests = append(f.tests, n.test)
			}
		}
		isFinal := func(test string) bool { return t.final[name{pkg, test}] }
		if len(f.tests) == 0 || t.broken[pkg] || slices.ContainsFunc(f.tests, isFinal) {
			continue
		}
		slices.Sort(f.tests)
		for n := range t.results {
			if n.pkg == pkg && slices.Contains(f.tests, n.top()) {
				delete(t.results, n)
			}
		}
		again = append(again, f)
	}
	return again
}

// args are those of the first run, with the tests in place of the packages.
func (f failure) args(first []string) []string {
	var args []string
	for _, a := range first {
		if !strings.HasPrefix(a, "./") {
			args = append(args, a)
		}
	}
	return append(args, "-count=1", "-parallel=1", "-run", "^("+strings.Join(f.tests, "|")+")$", f.pkg)
}

func (t *tally) count(r result) (n int) {
	for _, one := range t.results {
		if one == r {
			n++
		}
	}
	if r == failed {
		for _, is := range t.broken {
			if is {
				n++
			}
		}
	}
	return n
}

func (t *tally) end() {
	fmt.Fprintln(t.out)
	for _, pkg := range t.order {
		fmt.Fprint(t.out, t.closing[pkg])
	}
	for n := range t.first {
		if t.results[n] == passed {
			fmt.Fprintf(t.out, "unsteady: %s of %s failed beside the others, and passed by itself\n", n.test, n.pkg)
		}
	}
	fmt.Fprintf(t.out, "%d passed, %d failed, %d skipped\n", t.count(passed), t.count(failed), t.count(skipped))
}
