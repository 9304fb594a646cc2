package watchdog

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/records"
)

// serve carries out the writes that several sites want at one moment: one read, one
// batch, one read-back.
func (z *zone) serve(ctx context.Context, asks []ask) {
	ctx, cancel := context.WithTimeout(cloudflare.Urgent(ctx), writeTimeout)
	defer cancel()
	defer unanswered(asks)
	if err := z.prepare(ctx, asks); err != nil {
		z.answer(asks, z.failed(decide.Refused, err))
		z.publish(err)
		return
	}
	asks = z.elected(asks)
	var open []ask
	var batch records.Batch
	for _, a := range asks {
		part, refused := z.plan(a)
		if refusesAll(a, refused) {
			z.answer([]ask{a}, decide.Wrote{
				Outcome: decide.Refused, OfTarget: true, Detail: refused[0].Error(), Retry: time.Now().Add(min(z.w.cfg.ReadEvery, quarantineEvery)),
			})
			a.site.send(ctx, decide.Read{Records: z.view(a.site)})
			continue
		}
		open = append(open, a)
		batch = join(batch, part)
	}
	if len(open) == 0 {
		return
	}
	unsure, err := z.apply(ctx, batch)
	if err != nil && !unsure && len(open) > 1 {
		z.apart(ctx, open) // one site's records must not keep the others from moving
		return
	}
	z.conclude(ctx, open, unsure, err)
}

// unanswered answers who has no answer yet because serve broke down.
func unanswered(asks []ask) {
	for _, a := range asks {
		select {
		case a.answer <- decide.Wrote{Outcome: decide.Unsure, Detail: "the write broke down", Retry: time.Now().Add(retryWrite)}:
		default:
		}
	}
}

// refusesAll reports whether none of a site's names may be touched. A name can have
// several conflicts.
func refusesAll(a ask, refused []records.Conflict) bool {
	names := map[string]bool{}
	for _, c := range refused {
		names[c.Record.Name] = true
	}
	return len(names) == len(a.site.cfg.Names)
}

// prepare reads what a plan rests upon.
func (z *zone) prepare(ctx context.Context, asks []ask) error {
	if err := z.reread(ctx); err != nil {
		return err
	}
	looks := 0
	for _, a := range asks {
		for _, name := range a.site.cfg.Names {
			if seen, ok := z.beside[name]; ok && (time.Since(seen.at) < besideFresh || looks >= besideMost) {
				continue
			}
			looks++
			if err := z.look(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan is what it takes to bring a site where it wants.
func (z *zone) plan(a ask) (records.Batch, []records.Conflict) {
	epoch, _ := a.site.may()
	return records.Plan(a.site.cfg.Names, a.site.targets(), a.to, z.actual(a.site), records.Options{RemoveAAAA: a.bare, Create: a.site.cfg.Create, Epoch: epoch})
}

func join(a, b records.Batch) records.Batch {
	return records.Batch{
		Deletes: append(a.Deletes, b.Deletes...), Patches: append(a.Patches, b.Patches...), Posts: append(a.Posts, b.Posts...),
	}
}

// apply sends a batch. Unsure: some of it may have come through.
func (z *zone) apply(ctx context.Context, batch records.Batch) (unsure bool, err error) {
	for i, part := range batch.Split(records.MaxOperations) {
		if err := z.w.journal.Check(); err != nil {
			return i > 0, err
		}
		z.lives()
		if _, err := z.client.Apply(ctx, z.id, part); err != nil {
			e, ok := errors.AsType[*cloudflare.Error](err)
			return i > 0 || !ok || e.Kind == cloudflare.KindAmbiguous, err
		}
	}
	return false, nil
}

// apart writes each site by itself, after the provider has refused them together.
func (z *zone) apart(ctx context.Context, asks []ask) {
	for _, a := range asks {
		if len(z.elected([]ask{a})) == 0 {
			continue
		}
		part, _ := z.plan(a)
		unsure, err := z.apply(ctx, part)
		z.conclude(ctx, []ask{a}, unsure, err)
	}
}

// conclude reads back what was written and answers the sites by what is there, and
// not by what was asked for.
func (z *zone) conclude(ctx context.Context, asks []ask, unsure bool, err error) {
	back := err
	if err == nil || unsure {
		back = z.reread(ctx)
	}
	z.publish(cmp.Or(err, back))
	for _, a := range asks {
		switch {
		case err != nil && !unsure:
			for _, name := range a.site.cfg.Names { // something may stand beside: look again
				z.beside[name] = beside{records: z.beside[name].records}
			}
			z.answer([]ask{a}, z.failed(decide.Refused, err))
		case back != nil:
			z.answer([]ask{a}, z.failed(decide.Unsure, cmp.Or(err, back)))
		default:
			z.confirm(a, err)
		}
	}
	if back == nil {
		z.tellSites(ctx, asks)
	}
}

// confirm answers one site by what was read back.
func (z *zone) confirm(a ask, err error) {
	rest, refused := z.plan(a)
	switch {
	case refusesAll(a, refused):
		z.answer([]ask{a}, z.failed(decide.Unsure, refused[0]))
		return
	case rest.Len() > 0:
		wrote := z.failed(decide.Unsure, errors.New("the records read back are not those that were written"))
		if err != nil {
			wrote = z.failed(decide.Unsure, err)
		}
		z.answer([]ask{a}, wrote)
		return
	}
	view := z.view(a.site)
	view.On, view.Drift = a.to, a.bare
	if len(refused) > 0 && view.LeftOut == "" {
		view.LeftOut = refused[0].Error()
	}
	z.answer([]ask{a}, decide.Wrote{Outcome: decide.Confirmed, Records: view})
}

// failed is the answer to a write that did not work out, with the time at which the
// provider may be asked again.
func (z *zone) failed(o decide.Outcome, err error) decide.Wrote {
	now := time.Now()
	retry := now.Add(retryWrite)
	if e, ok := errors.AsType[*cloudflare.Error](err); ok && e.Until.After(now) {
		retry = e.Until
	}
	wrote := decide.Wrote{Outcome: o, Detail: plainly(err.Error()), Retry: retry}
	if e, ok := errors.AsType[*cloudflare.Error](err); ok && o == decide.Refused {
		wrote.OfTarget = e.OfRequest()
	}
	return wrote
}

// plainly is a text on one line.
func plainly(text string) string { return strings.Join(strings.Fields(text), " ") }

func (z *zone) answer(asks []ask, wrote decide.Wrote) {
	for _, a := range asks {
		a.answer <- wrote
	}
}

// planned is what each path would take, for people who want to see before they let
// it happen.
func (z *zone) planned(s *site) []PlanStatus {
	list := make([]PlanStatus, len(s.cfg.Paths))
	for i, path := range s.cfg.Paths {
		batch, refused := z.plan(ask{site: s, to: i})
		p := PlanStatus{Path: path.Name}
		for _, d := range batch.Deletes {
			p.Changes = append(p.Changes, "delete "+d.Type+" "+d.Name+" "+d.Content)
		}
		for _, c := range batch.Patches {
			p.Changes = append(p.Changes, "change "+c.Record.Type+" "+c.Record.Name+": "+change(c))
		}
		for _, r := range batch.Posts {
			p.Changes = append(p.Changes, "create "+r.Type+" "+r.Name+" "+r.Content)
		}
		for _, c := range refused {
			p.Refused = append(p.Refused, c.Error())
		}
		list[i] = p
	}
	return list
}

// change says what a patch changes.
func change(p records.Patch) string {
	if p.Value == nil {
		return "comment to " + p.Comment
	}
	text := p.Record.Content
	if p.Value.Content != text {
		text += " to " + p.Value.Content
	}
	for _, part := range []struct {
		changed bool
		text    string
	}{{p.Value.Proxied != p.Record.Proxied, proxied(p.Value.Proxied)}, {p.Value.TTL != p.Record.TTL, ttl(p.Value.TTL)}} {
		if part.changed {
			text += ", " + part.text
		}
	}
	return text
}

func proxied(on bool) string {
	if on {
		return "proxied"
	}
	return "not proxied"
}

func ttl(seconds int) string {
	if seconds == records.AutoTTL {
		return "TTL automatic"
	}
	return "TTL " + (time.Duration(seconds) * time.Second).String()
}

// adopt marks the records of a site as ours, so that they may be written.
func (z *zone) adopt(ctx context.Context, s *site) (adopted int, refused []string, err error) {
	if err := z.find(ctx); err != nil {
		return 0, nil, err
	}
	for _, name := range s.cfg.Names {
		if err := z.look(ctx, name); err != nil {
			return 0, nil, err
		}
	}
	if err := z.reread(ctx); err != nil {
		return 0, nil, err
	}
	batch, conflicts := records.Adoption(s.cfg.Names, z.actual(s), records.Options{})
	for _, c := range conflicts {
		refused = append(refused, c.Error())
	}
	if _, err := z.apply(ctx, batch); err != nil {
		return 0, refused, err
	}
	for _, name := range s.cfg.Names {
		if err := z.look(ctx, name); err != nil {
			return batch.Len(), refused, err
		}
	}
	return batch.Len(), refused, z.read(ctx)
}
