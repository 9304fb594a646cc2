package cloudflare

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cloudflare/cloudflare-go/v4/dns"

	"github.com/edgeward/edgeward/watchdog/records"
)

// Apply sends a batch in one request, which the provider does as a whole or not at
// all, and returns the records as they are after it, without the deleted ones. An
// empty batch costs nothing. At most records.MaxOperations fit: see Batch.Split.
//
// An Error of KindAmbiguous means that the batch may have been carried out. That
// Apply succeeds means that the provider has said so: read the records to prove it.
func (c *Client) Apply(ctx context.Context, zoneID string, b records.Batch) ([]records.Record, error) {
	const op = "changing records"
	if b.Len() == 0 {
		return nil, nil
	}
	if err := checkID(op, zoneID); err != nil {
		return nil, err
	}
	if err := checkBatch(b); err != nil {
		return nil, &Error{Kind: KindInvalid, Op: op, Detail: err.Error()}
	}
	params := batchParams(zoneID, b)
	body, err := params.MarshalJSON()
	if err != nil {
		return nil, &Error{Kind: KindInvalid, Op: op, Detail: "the request could not be built"}
	}
	var written []records.Record
	on := scope{zone: zoneID, write: fmt.Sprintf("%x", sha256.Sum256(body))}
	err = c.do(ctx, op, on, func(ctx context.Context) error {
		_, err := c.records.Batch(ctx, params)
		return err
	}, func(reply envelope) (err error) {
		written, err = confirm(b, reply.Result)
		return err
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// checkBatch refuses what must not be sent.
func checkBatch(b records.Batch) error {
	if b.Len() > records.MaxOperations {
		return fmt.Errorf("a batch of %d operations: at most %d fit", b.Len(), records.MaxOperations)
	}
	ids := map[string]bool{}
	checkOld := func(r records.Record) error {
		if !isID(r.ID) || ids[r.ID] {
			return fmt.Errorf("record id %.40q: want 32 lower-case hexadecimal digits, once in a batch", r.ID)
		}
		ids[r.ID] = true
		return nil
	}
	for _, r := range b.Deletes {
		if err := checkOld(r); err != nil {
			return err
		}
	}
	for _, p := range b.Patches {
		if err := checkOld(p.Record); err != nil {
			return err
		}
		if err := checkPatch(p); err != nil {
			return err
		}
	}
	for _, r := range b.Posts {
		if !isName(r.Name) {
			return fmt.Errorf("name %.80q: want a DNS name in punycode", r.Name)
		}
		if err := checkValue(r.Type, records.Value{Content: r.Content, Proxied: r.Proxied, TTL: r.TTL}); err != nil {
			return err
		}
		if err := checkComment(r.Comment); err != nil {
			return err
		}
	}
	return nil
}

func checkPatch(p records.Patch) error {
	if p.Value == nil && p.Comment == "" {
		return fmt.Errorf("the patch of %s changes nothing", p.Record.ID)
	}
	if p.Value != nil {
		if err := checkValue(p.Record.Type, *p.Value); err != nil {
			return err
		}
	}
	return checkComment(p.Comment)
}

func checkValue(kind string, v records.Value) error {
	r := records.Record{Type: kind, Content: v.Content}
	if _, fits := r.Address(); !fits {
		return fmt.Errorf("%.10q record with the content %.60q: want an address of an A or AAAA record", kind, v.Content)
	}
	if v.TTL != records.AutoTTL && (v.TTL < 30 || v.TTL > 86400) {
		return fmt.Errorf("ttl %d: want 60 to 86400 seconds (from 30 on Enterprise), or 1 for automatic", v.TTL)
	}
	return nil
}

func checkComment(comment string) error {
	if strings.ContainsAny(comment, "\r\n") {
		return errors.New("a comment has more than one line")
	}
	return nil
}

// batchParams says a batch in the library's terms. A field that is not set is not
// sent, and what is not sent stays as it is.
func batchParams(zoneID string, b records.Batch) dns.RecordBatchParams {
	var params dns.RecordBatchParams
	params.ZoneID.Value, params.ZoneID.Present = zoneID, true
	for _, r := range b.Deletes {
		var p dns.RecordBatchParamsDelete
		p.ID.Value, p.ID.Present = r.ID, true
		params.Deletes.Value, params.Deletes.Present = append(params.Deletes.Value, p), true
	}
	for _, patch := range b.Patches {
		params.Patches.Value, params.Patches.Present = append(params.Patches.Value, patchParam(patch)), true
	}
	for _, r := range b.Posts {
		params.Posts.Value, params.Posts.Present = append(params.Posts.Value, postParam(r)), true
	}
	return params
}

func patchParam(patch records.Patch) dns.BatchPatchUnionParam {
	if patch.Record.Type == records.AAAA {
		p := dns.BatchPatchAAAARecordParam{AAAARecordParam: aaaaParam(patch.Value, patch.Comment)}
		p.ID.Value, p.ID.Present = patch.Record.ID, true
		return p
	}
	p := dns.BatchPatchARecordParam{ARecordParam: aParam(patch.Value, patch.Comment)}
	p.ID.Value, p.ID.Present = patch.Record.ID, true
	return p
}

func postParam(r records.Record) dns.RecordBatchParamsPostUnion {
	v := &records.Value{Content: r.Content, Proxied: r.Proxied, TTL: r.TTL}
	if r.Type == records.AAAA {
		p := aaaaParam(v, r.Comment)
		p.Name.Value, p.Name.Present = r.Name, true
		p.Type.Value, p.Type.Present = dns.AAAARecordTypeAAAA, true
		return p
	}
	p := aParam(v, r.Comment)
	p.Name.Value, p.Name.Present = r.Name, true
	p.Type.Value, p.Type.Present = dns.ARecordTypeA, true
	return p
}

func aParam(v *records.Value, comment string) (p dns.ARecordParam) {
	if v != nil {
		p.Content.Value, p.Content.Present = v.Content, true
		p.Proxied.Value, p.Proxied.Present = v.Proxied, true
		p.TTL.Value, p.TTL.Present = dns.TTL(v.TTL), true
	}
	p.Comment.Value, p.Comment.Present = comment, comment != ""
	return p
}

func aaaaParam(v *records.Value, comment string) (p dns.AAAARecordParam) {
	if v != nil {
		p.Content.Value, p.Content.Present = v.Content, true
		p.Proxied.Value, p.Proxied.Present = v.Proxied, true
		p.TTL.Value, p.TTL.Present = dns.TTL(v.TTL), true
	}
	p.Comment.Value, p.Comment.Present = comment, comment != ""
	return p
}

var errConfirm = errors.New("the reply does not show what was asked for")

// confirm compares the reply with the batch, and returns the records it shows.
func confirm(b records.Batch, raw json.RawMessage) ([]records.Record, error) {
	var reply struct{ Deletes, Patches, Puts, Posts json.RawMessage }
	if json.Unmarshal(raw, &reply) != nil {
		return nil, errConfirm
	}
	patched, err := decodeSome(reply.Patches, len(b.Patches))
	if err != nil {
		return nil, err
	}
	posted, err := decodeSome(reply.Posts, len(b.Posts))
	if err != nil {
		return nil, err
	}
	if err := confirmDeletes(b.Deletes, reply.Deletes); err != nil {
		return nil, err
	}
	byID := map[string]records.Record{}
	for _, r := range patched {
		byID[r.ID] = r
	}
	for _, p := range b.Patches {
		if got, ok := byID[p.Record.ID]; !ok || !isPatched(got, p) {
			return nil, errConfirm
		}
	}
	for _, want := range b.Posts {
		if !containsPost(posted, want) {
			return nil, errConfirm
		}
	}
	return append(patched, posted...), nil
}

// decodeSome decodes a list that may be null if it is to be empty.
func decodeSome(raw json.RawMessage, count int) ([]records.Record, error) {
	if isNull(raw) && count == 0 {
		return nil, nil
	}
	list, err := decodeRecords(raw)
	if err == nil && len(list) != count {
		err = errConfirm
	}
	return list, err
}

func confirmDeletes(want []records.Record, raw json.RawMessage) error {
	if isNull(raw) && len(want) == 0 {
		return nil
	}
	var got []struct{ ID string }
	if json.Unmarshal(raw, &got) != nil || len(got) != len(want) {
		return errConfirm
	}
	gone := map[string]bool{}
	for _, g := range got {
		gone[g.ID] = true
	}
	for _, r := range want {
		if !gone[r.ID] {
			return errConfirm
		}
	}
	return nil
}

func isPatched(got records.Record, p records.Patch) bool {
	return got.Name == p.Record.Name && got.Type == p.Record.Type &&
		(p.Value == nil || shows(got, *p.Value)) && (p.Comment == "" || got.Comment == p.Comment)
}

func containsPost(list []records.Record, want records.Record) bool {
	for _, got := range list {
		if got.Name == want.Name && got.Type == want.Type && got.Comment == want.Comment &&
			shows(got, records.Value{Content: want.Content, Proxied: want.Proxied, TTL: want.TTL}) {
			return true
		}
	}
	return false
}

// shows compares addresses and not their spelling. A proxied record has no TTL of
// its own.
func shows(r records.Record, v records.Value) bool {
	got, ok := r.Address()
	want, err := netip.ParseAddr(v.Content)
	return ok && err == nil && got == want && r.Proxied == v.Proxied && (v.Proxied || r.TTL == v.TTL)
}
