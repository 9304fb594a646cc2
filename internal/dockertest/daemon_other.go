//go:build !linux

package dockertest

import "errors"

// daemon can be started on Linux only.
type daemon struct{}

func startDaemon() (*daemon, error) {
	return nil, errors.New("no daemon answers, and one can be started on Linux only")
}

func (*daemon) host() string   { return "" }
func (*daemon) restart() error { return nil }
func (*daemon) close() error   { return nil }
func (*daemon) tail() string   { return "" }
