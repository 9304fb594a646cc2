package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bounds of what an agent may say.
const (
	maxHash     = 128
	maxName     = 63
	maxReason   = 200
	maxInterval = 10 * time.Minute
)

// read decodes the body, which must be one JSON value of at most most bytes. Fields
// that are not known are those of a newer agent.
func read(w http.ResponseWriter, r *http.Request, most int64, v any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	err := decoder.Decode(v)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = errors.New("something follows the JSON value")
			if tooLarge, ok := errors.AsType[*http.MaxBytesError](more); ok {
				err = tooLarge
			}
		}
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return newProblem(http.StatusRequestEntityTooLarge, "body_too_large", "the body has more than %d bytes", most)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return badField(wrong.Field, "is a JSON %s, which does not fit", wrong.Value)
	}
	return newProblem(http.StatusBadRequest, "bad_json", "reading the body: %s", err)
}

func badField(field, format string, args ...any) *problem {
	p := newProblem(http.StatusBadRequest, "bad_field", "%s %s", field, fmt.Sprintf(format, args...))
	p.Field = field
	return p
}

func (hb *Heartbeat) check() error {
	if hb.Interval < 0 || hb.Interval > maxInterval.Seconds() {
		return badField("interval", "is %g seconds: want 0 to %g", hb.Interval, maxInterval.Seconds())
	}
	if len(hb.Version) > maxReason || len(hb.Hostname) > maxReason {
		return badField("version", "and hostname: want at most %d bytes", maxReason)
	}
	if hb.LAN.IsValid() && (hb.LAN.IsUnspecified() || hb.LAN.IsLoopback() || hb.LAN.IsMulticast()) {
		return badField("lan", "is %s, which others in the home's network cannot reach", hb.LAN)
	}
	return hb.Applied.check()
}

// ValidName tells whether a route's name can be reported. What else a name must be is
// the relay's business.
func ValidName(name string) bool { return name != "" && len(name) <= maxName }

func (a *Applied) check() error {
	switch {
	case len(a.Boot) > maxHash:
		return badField("boot", "is longer than %d bytes", maxHash)
	case len(a.Hash) > maxHash:
		return badField("hash", "is longer than %d bytes", maxHash)
	}
	for i := range a.Failed {
		f := &a.Failed[i]
		if !ValidName(f.Route) {
			return badField(fmt.Sprintf("failed[%d].route", i), "want 1 to %d bytes", maxName)
		}
		f.Reason = plain(f.Reason, maxReason)
	}
	return nil
}

// Fit shortens a report until it can be sent. If it cannot list all routes that do
// not work, it says that no table is in force: nobody is sent where it may be wrong.
func (a *Applied) Fit() {
	for i := range a.Failed {
		a.Failed[i].Reason = plain(a.Failed[i].Reason, maxReason)
	}
	if a.fits() {
		return
	}
	for i := range a.Failed {
		a.Failed[i].Reason = ""
	}
	if !a.fits() {
		a.Hash, a.Failed = "", nil
	}
}

// fits leaves room for what a heartbeat says besides.
func (a *Applied) fits() bool {
	const besides = 8 << 10
	if len(a.Failed) < 100 {
		return true
	}
	text, err := json.Marshal(a)
	return err == nil && len(text) <= MaxBody-besides
}

// plain makes one short line of text: no control characters, at most so many bytes.
func plain(text string, most int) string {
	clean := make([]rune, 0, min(len(text), most))
	size := 0
	for _, r := range text {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd || r == 0x2028 || r == 0x2029 {
			r = ' '
		}
		if size += len(string(r)); size > most {
			break
		}
		clean = append(clean, r)
	}
	return string(clean)
}
