// Package haproxytest runs the real HAProxy in tests, with visitors before it and
// gateways behind it, on loopback addresses.
//
//	p := haproxytest.Start(t, text, socket)
//	got := haproxytest.Visit(t, address, haproxytest.Hello("a.example.com"))
//
// Where HAProxy is not installed the test is skipped; with CI=true it fails.
package haproxytest
