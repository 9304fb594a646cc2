// Command guest is what runs in the containers of tests.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(64)
	}
	os.Exit(run(os.Args[1], os.Args[2:]))
}

// run returns the exit code.
func run(verb string, args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	fmt.Println("guest:", verb, args)
	switch {
	case verb == "run": // until it is asked to end; the file says that it can be
		if len(args) == 1 && os.WriteFile(args[0], nil, 0o644) != nil {
			return 73
		}
		<-signals
		return 0
	case verb == "stubborn": // must be killed
		for range signals {
		}
	case verb == "exit" && len(args) == 2: // code, after a time
		after, err := time.ParseDuration(args[1])
		if err != nil {
			return 64
		}
		select {
		case <-signals:
		case <-time.After(after):
		}
		code, err := strconv.Atoi(args[0])
		if err != nil {
			return 64
		}
		return code
	case verb == "file" && len(args) == 1: // a health check: is it there?
		if _, err := os.Stat(args[0]); err != nil {
			return 1
		}
		return 0
	}
	return 64
}
