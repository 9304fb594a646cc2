package attempt

// machine is one call of Next: the state it works on and the actions it makes.
type machine struct {
	p    Policy
	s    *State
	now  int64
	pick Picker
	acts *Actions
}

// dialNext dials the next member as flight f, or gives up when none is left and
// nothing else is in the air.
func (m machine) dialNext(f int8) {
	if m.dial(f, false) {
		return
	}
	if m.s.Flights[0].Phase == Idle && m.s.Flights[1].Phase == Idle {
		m.acts.add(GiveUp, f, -1, None)
	}
}

func (m machine) dial(f int8, hedge bool) bool {
	if m.overtime() {
		return false
	}
	member, ok := m.pick(m.s.Tried, hedge)
	if !ok {
		return false
	}
	m.s.Tried |= 1 << uint(member)
	m.s.Dials++
	m.s.Flights[f] = Flight{Member: member, Phase: Dialling, since: m.now}
	m.acts.add(Dial, f, member, None)
	return true
}

func (m machine) overtime() bool {
	return m.p.Total > 0 && m.now-m.s.started >= int64(m.p.Total)
}

// connected sends the ClientHello on the first flight to connect. The other one
// has lost the race, or was silent for too long.
func (m machine) connected(ev Event) {
	f := &m.s.Flights[ev.Flight]
	if f.Phase != Dialling {
		return
	}
	m.acts.add(Praise, ev.Flight, f.Member, None)
	m.lose(1 - ev.Flight)
	*f = Flight{Member: f.Member, Phase: Sent, since: m.now}
	m.s.pinned = ev.Pinned
	m.acts.add(Send, ev.Flight, f.Member, None)
}

// lose takes a flight out of the air: another one is better.
func (m machine) lose(i int8) {
	f := &m.s.Flights[i]
	switch f.Phase {
	case Dialling:
		m.acts.add(Orphan, i, f.Member, None)
		m.acts.list[m.acts.n-1].Since = f.since
		*f = Flight{}
	case Sent:
		m.drop(i)
	}
}

func (m machine) failed(ev Event) {
	f := m.s.Flights[ev.Flight]
	if f.Phase != Dialling {
		return
	}
	fault := Unreachable
	if ev.Firm {
		fault = Refused
	}
	m.acts.add(Blame, ev.Flight, f.Member, fault)
	m.drop(ev.Flight)
	m.dialNext(ev.Flight)
}

// starved gives up unless another dial is in the air: a second one would find
// this machine just as short.
func (m machine) starved(i int8) {
	if m.s.Flights[i].Phase != Dialling {
		return
	}
	m.drop(i)
	if m.s.Flights[1-i].Phase == Idle {
		m.acts.add(GiveUp, i, -1, Starving)
	}
}

func (m machine) answered(i int8) {
	f := &m.s.Flights[i]
	if f.Phase != Sent {
		return
	}
	m.acts.add(Praise, i, f.Member, None)
	m.acts.list[m.acts.n-1].Answer = true
	m.serve(i)
}

func (m machine) spoke() {
	for i := range int8(2) {
		if m.s.Flights[i].Phase == Sent {
			m.serve(i)
		}
	}
}

func (m machine) serve(i int8) {
	m.lose(1 - i)
	m.s.Flights[i].Phase = Established
	m.acts.add(Serve, i, m.s.Flights[i].Member, None)
}

// broke moves on to the next member. An orderly close is an answer of the
// member's application as far as evidence goes, but the visitor still deserves
// one that speaks.
func (m machine) broke(ev Event) {
	f := m.s.Flights[ev.Flight]
	if f.Phase != Sent {
		return
	}
	if ev.Firm {
		m.acts.add(Blame, ev.Flight, f.Member, Reset)
	}
	m.drop(ev.Flight)
	if m.s.pinned {
		m.acts.add(GiveUp, ev.Flight, -1, None)
		return
	}
	if !m.dialling() { // else the next one is on its way
		m.dialNext(ev.Flight)
	}
}

func (m machine) drop(i int8) {
	m.acts.add(Drop, i, m.s.Flights[i].Member, None)
	m.s.Flights[i] = Flight{}
}

func (m machine) tick() {
	if m.dialling() && m.overtime() {
		m.giveUp()
		return
	}
	for i := range int8(2) {
		f := &m.s.Flights[i]
		switch {
		case f.Phase == Dialling && m.past(f, int64(m.p.Dial)):
			m.late(i, Slow)
		case f.Phase == Sent && !m.s.pinned && m.past(f, int64(m.p.FirstByte)):
			m.late(i, Silent)
		}
	}
	m.hedge()
}

func (m machine) dialling() bool {
	return m.s.Flights[0].Phase == Dialling || m.s.Flights[1].Phase == Dialling
}

func (m machine) past(f *Flight, limit int64) bool {
	return limit > 0 && !f.slow && m.now-f.since >= limit
}

// late replaces a dial whose time is up by the next member, and has that one dialled
// beside a member that is silent: which may speak yet, and the other may be dead. Where
// no other is left it stays: a slow member is better than none.
func (m machine) late(i int8, fault Fault) {
	f := &m.s.Flights[i]
	m.acts.add(Blame, i, f.Member, fault)
	_, another := m.pick(m.s.Tried, false)
	switch {
	case !another || m.overtime():
		f.slow = true
	case fault == Silent:
		f.slow = true
		m.dial(1-i, false)
	default:
		m.drop(i)
		m.dial(i, false)
	}
}

// hedge dials a second member beside a lone dial that takes long.
func (m machine) hedge() {
	if m.p.Hedge <= 0 || !m.s.lone() {
		return
	}
	for i := range int8(2) {
		f := &m.s.Flights[i]
		if f.Phase == Dialling && !f.hedged && m.now-f.since >= int64(m.p.Hedge) {
			f.hedged = true
			m.acts.add(Doubt, i, f.Member, None)
			m.dial(1-i, true)
		}
	}
}

// giveUp ends all dials, and the attempt where no member has the ClientHello.
func (m machine) giveUp() {
	for i := range int8(2) {
		if f := m.s.Flights[i]; f.Phase == Dialling {
			if !f.slow {
				m.acts.add(Blame, i, f.Member, Slow)
			}
			m.drop(i)
		}
	}
	if m.s.Flights[0].Phase == Idle && m.s.Flights[1].Phase == Idle {
		m.acts.add(GiveUp, 0, -1, None)
	}
}
