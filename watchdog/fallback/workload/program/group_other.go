//go:build !unix

package program

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup kills the command alone: there are no groups here.
func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
