package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// blindPause is how long our own connection must be gone before people are told.
// Uncalibrated: longer than a modem takes to renew its lease.
const blindPause = 30 * time.Second

// meddleLimit is how many repairs an hour are made before we take it that another
// writer is at work, and stop fighting it until the hour has passed.
const meddleLimit = 6

// evaluate decides what to do about all that is known.
func (t *step) evaluate() {
	t.tellBlind()
	t.tellOutage()
	if t.s.Reader {
		t.follow()
		return
	}
	if t.s.Move == nil {
		t.tellRefusingOver()
	}
	switch {
	case !t.s.Records.Known || t.s.Records.Conflict != "":
		return
	case t.s.Move != nil:
		t.pursue()
		return
	case t.s.Paused != nil || !t.s.BlindSince.IsZero():
		return
	}
	for _, rule := range []func() bool{t.pinned, t.failover, t.drill, t.withdraw, t.repair, t.goBack} {
		if rule() {
			return
		}
	}
}

// pursue goes on with a move that is not confirmed: asks again when it is due and
// still right, or lets it go.
func (t *step) pursue() {
	m := t.s.Move
	t.recall(m)
	switch {
	case t.s.Move == nil:
		t.evaluate()
	case m.Asked:
	case m.Cause == Withdraw && !t.total():
		t.s.Move, t.s.Bare = nil, m.Unsure // what came through of it is repaired
		t.evaluate()
	case !m.Unsure && t.moot(m):
		t.s.Move = nil
		t.because("the move to %s is off: nothing of it was written, and %s", t.p.name(m.To), t.mootWhy(m))
		t.evaluate()
	case t.spurned(m):
	case t.now.Before(m.Retry) || t.s.Paused != nil || !t.s.BlindSince.IsZero():
	case m.Cause == Withdraw || t.provenWithHome(m.To):
		t.ask()
	case t.diverted(m):
	default:
		t.because("the move to %s waits: %s", t.p.name(m.To), t.unproven(m.To))
	}
}

func (t *step) tellRefusingOver() {
	if t.s.Told.Refusing {
		t.s.Told.Refusing = false
		t.announce(Accepting, t.s.Want, "the write is not needed any more")
	}
}

// moot reports whether a move of which nothing was written has lost its reason.
func (t *step) moot(m *Move) bool {
	switch m.Cause {
	case Failover:
		return t.provenWithHome(m.From) && !t.failed(m.From)
	case Repair:
		return t.s.Records.On == m.To && !t.s.Records.Drift || t.failed(m.To)
	case Return:
		return !t.mayReturn(m.To)
	case Rehearsal:
		if d := t.s.Drill; d != nil && m.To == d.Back { // the way back is not given up
			return t.failed(m.To)
		}
	}
	return (m.Cause == Manual || m.Cause == Rehearsal) && t.s.Pinned != m.To &&
		(t.failed(m.To) || m.Attempts >= manualTries || t.now.Sub(m.Since) >= manualFor)
}

// An operator's move is tried so often, and so long, before it is given up: who
// asked is no longer there to see it.
const (
	manualTries = 5
	manualFor   = 10 * time.Minute
)

func (t *step) mootWhy(m *Move) string {
	switch m.Cause {
	case Failover:
		return t.p.name(m.From) + " works again"
	case Return:
		if t.shunned(m.To) {
			return "the provider refuses " + t.p.name(m.To) + ": " + m.Refusal
		}
		return t.p.name(m.To) + " is not well any more"
	case Repair:
		return "there is nothing left to repair"
	}
	if t.failed(m.To) {
		return t.p.name(m.To) + " has failed"
	}
	return fmt.Sprintf("it was tried %d times in %s", m.Attempts, t.now.Sub(m.Since).Round(time.Second))
}

// diverted lets a move go elsewhere when the place it was going to is dead, for the
// records may name it by now; or is not known to work, if that much is known: nothing
// of the move was written, and where visitors are is dead. What may have been written
// of it is overwritten.
func (t *step) diverted(m *Move) bool {
	why := fmt.Sprintf("%s, then %s too", m.Why, t.detail(m.To))
	switch {
	case t.s.Pinned >= 0:
		return false
	case t.failed(m.To):
	case m.Unsure || m.Cause != Failover && !t.failed(m.From):
		return false
	default:
		why = m.Why + ", and " + t.unproven(m.To)
	}
	for i := range t.p.Paths {
		if i != m.To && t.provenWithHome(i) && !t.failed(i) {
			m.To, m.Cause, m.Why = i, Failover, why
			t.ask()
			return true
		}
	}
	return false
}

// begin sets out for a path.
func (t *step) begin(to int, cause Cause, why string) bool {
	from := t.s.On
	if from == Nowhere {
		from = t.s.Want
	}
	t.s.Move = &Move{From: from, To: to, Cause: cause, Why: why, Since: t.now}
	t.ask()
	return true
}

func (t *step) ask() {
	m := t.s.Move
	m.Asked = true
	m.Attempts++
	t.because("%s", m.Why)
	t.rec.Evidence = t.evidence()
	t.do(Write{To: m.To, Path: t.p.name(m.To), Cause: m.Cause, Why: m.Why, Bare: m.Cause == Withdraw})
}

// pinned goes to the path that an operator has fixed, once it works.
func (t *step) pinned() bool {
	i := t.s.Pinned
	if i < 0 || i >= len(t.p.Paths) {
		return false
	}
	if t.s.On != i && t.provenWithHome(i) {
		return t.begin(i, Manual, "pinned to "+t.p.name(i))
	}
	return t.s.On == i && !t.s.Records.Drift // nothing else may move it
}

// failover leaves a dead path for the first one that works.
func (t *step) failover() bool {
	from := t.s.On
	if from == Nowhere {
		from = t.s.Want
	}
	if from == Nowhere || !t.failed(from) || t.s.Pinned >= 0 {
		t.release()
		return false
	}
	for _, i := range t.inOrder() {
		if i != from && t.provenWithHome(i) && !t.failed(i) && (t.dead(from) || t.clear(i)) {
			return t.begin(i, Failover, fmt.Sprintf("%s failed: %s", t.p.name(from), t.detail(from)))
		}
	}
	t.hold(from)
	return false
}

// dead reports whether a path has failed without regard to slow probes.
func (t *step) dead(i int) bool {
	return slices.ContainsFunc(t.families(i), func(k *Standing) bool { return k.dead(&t.p) })
}

// clear reports whether the last good probes of a path were as quick as usual. If they
// were not, it may be our own line that is slow.
func (t *step) clear(i int) bool {
	return !slices.ContainsFunc(t.families(i), func(k *Standing) bool { return k.Poor&1 == 1 })
}

// hold says that a dead path cannot be left, and why.
func (t *step) hold(from int) {
	var why []string
	for i := range t.p.Paths {
		if i != from {
			why = append(why, t.unproven(i))
		}
	}
	reason := strings.Join(why, "; ")
	if reason == "" {
		reason = "there is no other path"
	}
	if t.s.Told.Hold == "" {
		t.because("%s failed (%s) and cannot be left: %s", t.p.name(from), t.detail(from), reason)
		t.announce(Held, from, reason)
	}
	t.s.Told.Hold = reason
}

// release ends a hold.
func (t *step) release() {
	if on := t.s.On; t.s.Told.Hold != "" && on != Nowhere && t.proven(on) && !t.failed(on) {
		t.s.Told.Hold = ""
		t.announce(Released, on, t.p.name(on)+" works again")
	}
}

// withdraw takes the AAAA records out in a total outage, where that is wanted.
func (t *step) withdraw() bool {
	on := t.s.On
	if !t.p.WithdrawAAAA || t.s.Bare || on == Nowhere || !t.p.Paths[on].V4 || !t.p.Paths[on].V6 || !t.total() {
		return false
	}
	return t.begin(on, Withdraw, "no path is left")
}

// total reports whether every path has failed, as far as we can see at all.
func (t *step) total() bool {
	for i := range t.p.Paths {
		if !t.failed(i) {
			return false
		}
	}
	return true
}

// repair writes again what somebody else has changed, or what came through in part.
func (t *step) repair() bool {
	want, r := t.s.Want, t.s.Records
	if t.s.On != want && t.s.On != Nowhere && t.failed(want) && t.provenWithHome(t.s.On) {
		t.movedByOthers("by another hand, and that one works")
		return true
	}
	whole := r.On == want && !r.Drift && !t.s.Bare
	if want == Nowhere || whole || !t.provenWithHome(want) {
		return false
	}
	if len(t.s.Meddled) >= meddleLimit && !t.s.Bare {
		if !t.s.Told.Meddling {
			t.s.Told.Meddling = true
			t.because("the records were changed %d times in an hour: another writer is at work", meddleLimit)
			t.announce(Meddling, want, t.rec.Reason)
		}
		return false
	}
	t.s.Told.Meddling = false
	why := "the records were changed: they hold " + r.Describe(t.p)
	if t.s.Bare {
		why = "the AAAA records come back with the path"
	} else {
		t.s.Meddled = append(t.s.Meddled, t.now)
	}
	return t.begin(want, Repair, why)
}

// goBack returns to the best path that has been well for long enough.
func (t *step) goBack() bool {
	switch {
	case t.s.On != t.s.Want && len(t.s.Meddled) >= meddleLimit:
		return false // it would be one more repair
	case t.s.Drill != nil:
		return false // it has a way back of its own
	}
	for i := range max(t.s.On, 0) {
		if t.s.Pinned < 0 && t.mayReturn(i) {
			return t.begin(i, Return, fmt.Sprintf("%s has been well for %s", t.p.name(i), t.healthyFor(i).Round(time.Second)))
		}
	}
	return false
}

func (t *step) mayReturn(i int) bool {
	recovery := none(t.p.Recovery)
	return t.provenWithHome(i) && !t.shunned(i) &&
		t.healthyFor(i) >= recovery && !t.healthySince(i).IsZero() &&
		(!t.needsLocal(i) || t.s.Local.healthyFor(recovery, t.now)) &&
		t.now.Sub(t.s.LastMove) >= none(t.p.Dwell) &&
		(t.p.Budget < 0 || len(t.s.Moves) < t.p.Budget)
}

// healthySince is since when a path has been well in all families that it has and
// that we can see. Zero: it is not.
func (t *step) healthySince(i int) time.Time {
	var since time.Time
	for _, k := range t.families(i) {
		if k.Healthy.IsZero() {
			return time.Time{}
		}
		if k.Healthy.After(since) {
			since = k.Healthy
		}
	}
	return since
}

func (t *step) healthyFor(i int) time.Duration {
	if since := t.healthySince(i); !since.IsZero() {
		return t.now.Sub(since)
	}
	return 0
}

// families lists the standings of a path that count: those of families that it has
// and that our own connection has.
func (t *step) families(i int) []*Standing {
	var list []*Standing
	path, k := &t.p.Paths[i], &t.s.Paths[i]
	if path.V4 {
		list = append(list, &k.V4)
	}
	if path.V6 && (!path.V4 || !t.p.Witness6 || t.s.Witness6.Last == evidence.Good) {
		list = append(list, &k.V6)
	}
	return list
}

// failed reports whether a path has failed, for all that is known anywhere.
func (t *step) failed(i int) bool { return t.failedHere(i) && !t.outvoted(i) }

// failedHere reports whether a path has failed and our own connection is not to blame.
func (t *step) failedHere(i int) bool {
	if i < 0 || i >= len(t.p.Paths) || !t.s.BlindSince.IsZero() {
		return false
	}
	k := &t.s.Paths[i]
	return t.p.Paths[i].V4 && k.V4.failed(&t.p, t.now) && t.sighted(t.p.Witness4, &t.s.Witness4, &k.V4) ||
		t.p.Paths[i].V6 && k.V6.failed(&t.p, t.now) && t.sighted(t.p.Witness6, &t.s.Witness6, &k.V6)
}

// sighted reports whether a witness saw, after the trouble began.
func (t *step) sighted(asked bool, witness, k *Standing) bool {
	return !asked || witness.proven(&t.p, t.now) && !witness.Started.Before(k.Trouble)
}

// proven reports whether a path has just been seen to work.
func (t *step) proven(i int) bool {
	list := t.families(i)
	return len(list) > 0 && !slices.ContainsFunc(list, func(k *Standing) bool { return !k.proven(&t.p, t.now) })
}

func (t *step) needsLocal(i int) bool { return t.p.Local && t.p.Paths[i].NeedsLocal }

// provenWithHome is proven, and the home behind it too.
func (t *step) provenWithHome(i int) bool {
	return i >= 0 && i < len(t.p.Paths) && t.proven(i) && (!t.needsLocal(i) || t.s.Local.proven(&t.p, t.now))
}

// unproven says why a path cannot be written.
func (t *step) unproven(i int) string {
	if t.proven(i) && t.needsLocal(i) && !t.s.Local.proven(&t.p, t.now) {
		return fmt.Sprintf("%s needs the home, and local is %s", t.p.name(i), t.s.Local.say(&t.p, t.now))
	}
	for _, k := range t.families(i) {
		if !k.proven(&t.p, t.now) {
			return t.p.name(i) + " is " + k.say(&t.p, t.now)
		}
	}
	return t.p.name(i) + " works"
}

// say describes a standing in a word or two.
func (k *Standing) say(p *Policy, now time.Time) string {
	text := k.Last.String()
	switch {
	case k.Started.IsZero():
		return "not probed yet"
	case k.Last == evidence.Good && !k.proven(p, now):
		return "not known to work now"
	case k.Detail != "" && k.Last != evidence.Good:
		text += ": " + k.Detail
	}
	return text
}

// detail is what a path's failure looks like.
func (t *step) detail(i int) string {
	for _, k := range []*Standing{&t.s.Paths[i].V4, &t.s.Paths[i].V6} {
		if k.Bad != 0 {
			return fmt.Sprintf("%d of %d probes: %s", k.Failures(t.p.Window), min(k.Count, t.p.Window), k.Fault)
		}
	}
	return "no probe failed"
}

// evidence lists what is known, for the record of a decision.
func (t *step) evidence() []string {
	var list []string
	say := func(of Source) {
		if k := t.s.standing(t.p, of); !k.Started.IsZero() {
			list = append(list, fmt.Sprintf("%s %s, %s ago", of.name(t.p), k.say(&t.p, t.now), t.now.Sub(k.Started).Round(10*time.Millisecond)))
		}
	}
	for i, path := range t.p.Paths {
		if path.V4 {
			say(Source{Kind: OfPath, Path: i})
		}
		if path.V6 {
			say(Source{Kind: OfPath, Path: i, V6: true})
		}
	}
	say(Source{Kind: Local})
	say(Source{Kind: Witness})
	say(Source{Kind: Witness, V6: true})
	return list
}

func (t *step) tellBlind() {
	switch since := t.s.BlindSince; {
	case !since.IsZero() && !t.s.Told.Blind && t.now.Sub(since) >= blindPause:
		t.s.Told.Blind = true
		t.do(Announce{What: WentBlind, Why: "our own connection is lost: nothing is decided until it is back", Since: since})
	case since.IsZero() && t.s.Told.Blind && (!t.p.Witness4 || t.s.Witness4.Last == evidence.Good): // the process before told
		t.s.Told.Blind = false
		t.announce(SeesAgain, Nowhere, "our own connection is back")
	}
}

func (t *step) tellOutage() {
	switch {
	case t.s.OutageSince.IsZero() && t.total():
		t.s.OutageSince = t.now
		if !t.s.Told.Outage {
			t.s.Told.Outage = true
			t.announce(OutageBegan, t.s.On, "every path has failed")
		}
	case t.s.Told.Outage && slices.ContainsFunc(t.indexes(), t.provenWithHome):
		since := cmp.Or(t.s.OutageSince, t.now) // of one that the process before told of it is not known
		t.s.OutageSince, t.s.Told.Outage = time.Time{}, false
		t.do(Announce{What: OutageOver, Why: "a path works again", Since: since})
	}
}

func (t *step) indexes() []int {
	list := make([]int, len(t.p.Paths))
	for i := range list {
		list[i] = i
	}
	return list
}
