// Package preflight looks whether a home can take its items back before anything is
// stopped for it. It looks at everything and changes nothing.
//
//	p := preflight.New(preflight.Config{Self: "a", Workloads: w, Mounts: []string{"/mnt/user"}})
//	findings := p.Local(ctx, items, []preflight.Need{{Path: "/mnt/user/photos", Bytes: 3 << 30}})
//	findings = append(findings, preflight.Pair(mine, theirs, asked, answered)...)
//
// [Preflight.Local] is for the home that gets them: Docker, what each item needs, its data,
// mounts and disk space. [Pair] is for the one that gives them: do both run the same
// version and config, and agree on the time. What could not be found out is not well, and
// says so.
package preflight
