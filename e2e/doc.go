// Package e2e tests Edgeward as people run it: the built binaries, real sockets,
// real clients and servers, and faults. There is one test for each promise.
//
// The binaries are built once, or taken from $EDGE_BIN_DIR. Tools that are missing
// (nginx, curl, openssl, chromium) skip their tests, unless CI=true: there a
// missing tool fails. Nothing leaves this machine: all traffic is on loopback.
//
//	go test ./e2e
//	EDGE_BIN_DIR=$PWD/bin go test ./e2e -run TestKilled -v
package e2e
