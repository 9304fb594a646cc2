// Package semantic checks what a JSON document says: that a number is in range, a
// list is not empty, a time is fresh, and each entry has its fields. The checks are
// data, so that a site brings its own in the configuration.
//
// It computes and nothing else: the document and the time are handed in. Its
// messages name the rule and quote at most a number of the document, shortened, so
// that a page with secrets in it can be checked and the messages logged.
//
//	rules := []semantic.Rule{
//		{Path: "total_bans", Type: semantic.Integer, Min: new(0.0)},
//		{Path: "top_countries", Type: semantic.Array},
//		{Path: "top_countries", NonEmpty: true, Severity: semantic.Degrade},
//		{Path: "generated_at", Fresh: semantic.Duration(20 * time.Minute)},
//	}
//	if err := semantic.Validate(rules); err != nil {
//		return err
//	}
//	verdict := semantic.Verify(rules, body, time.Now())
package semantic
