// Package check makes one active check of one target: a TCP connect, a TLS
// handshake with the certificate verified, or an HTTPS request.
//
// A check goes the way traffic goes, with the same PROXY header, and leaves a
// clean log behind: it finishes the handshake and closes like a polite client.
// It starts no goroutine that outlives it, heeds no proxy from the environment,
// follows no redirect, and reads a bounded answer. When to check, and what to
// make of the results, is for others; see package health.
//
//	spec := check.Spec{Kind: check.TLS, ServerName: "health.example.com"}
//	if err := spec.Validate(); err != nil {
//		return err
//	}
//	res := check.Run(ctx, spec, "10.8.0.8:443", nil)
//	observe(health.Observed{Evidence: res.Evidence()})
package check
