package program_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/workload/program"
)

func sh(text string) program.Command { return program.Command{Argv: []string{"sh", "-c", text}} }

func TestRun(t *testing.T) {
	t.Setenv("EDGE_TEST_SECRET", "s3cret")
	input := sh("cat")
	input.Stdin = strings.NewReader("in")
	for _, tt := range []struct {
		name string
		c    program.Command
		want program.Result
		err  string
	}{
		{"both outputs and a code", sh("echo o; echo e >&2; exit 7"), program.Result{Code: 7, Stdout: "o\n", Stderr: "e\n"}, ""},
		{"input", input, program.Result{Stdout: "in"}, ""},
		{"no input", sh("cat"), program.Result{}, ""},
		{"not our environment", sh("echo $EDGE_TEST_SECRET"), program.Result{Stdout: "\n"}, ""},
		{"not ended by itself", sh("kill -9 $$"), program.Result{}, "ended by signal: killed"},
		{"no such program", program.Command{Argv: []string{"/nonexistent"}}, program.Result{}, "no such file"},
		{"its output held open", sh("sleep 1000 & echo o"), program.Result{Stdout: "o\n"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := program.Run(t.Context(), tt.c)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, %v, want %+v, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestRunIsBounded(t *testing.T) {
	got, err := program.Run(t.Context(), sh("yes | head -c 3000000"))
	if err != nil || len(got.Stdout) != program.MaxOutput {
		t.Errorf("%d bytes, %v", len(got.Stdout), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := program.Run(ctx, sh("sleep 1000")); err == nil {
		t.Error("it went on after the deadline")
	}
}
