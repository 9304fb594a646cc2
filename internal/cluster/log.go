package cluster

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger gives etcd a logger that writes to log, and calls broken where etcd would
// end the process: a member whose disk is broken must not take a relay's visitors
// along. The goroutine that says so ends; the others of that member may hang, so it
// can't be started again in this process.
func newLogger(log *slog.Logger, broken func(message string)) *zap.Logger {
	hook := onEnd(broken)
	return zap.New(&bridge{log: log, said: &said{}}, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

type onEnd func(message string)

// OnWrite implements zapcore.CheckWriteHook.
func (f onEnd) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	var message strings.Builder
	message.WriteString(e.Message)
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			message.WriteString(": " + err.Error())
		}
	}
	f(message.String())
	runtime.Goexit()
}

// bridge is a zapcore.Core over slog. etcd tells at info what is for its developers.
type bridge struct {
	log    *slog.Logger
	fields []zapcore.Field
	said   *said
}

// Enabled implements zapcore.Core.
func (b *bridge) Enabled(l zapcore.Level) bool {
	return b.log.Enabled(context.Background(), level(l))
}

func level(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// With implements zapcore.Core.
func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{b.log, append(b.fields[:len(b.fields):len(b.fields)], fields...), b.said}
}

// harmless is what etcd warns of, and is as it should be here.
var harmless = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.":                   true, // there is no port for clients
	"simple token is not cryptographically signed":                                                           true, // nor users
	"Failed to detect schema version":                                                                        true, // of a member that is new
	"failed to update storage version":                                                                       true,
	"setting up serving from embedded etcd failed.":                                                          true, // when it is stopped
	"leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk": true,
}

// Check implements zapcore.Core.
func (b *bridge) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if harmless[e.Message] {
		e.Level = min(e.Level, zapcore.DebugLevel)
	}
	if e.Level >= zapcore.PanicLevel || b.Enabled(e.Level) && (e.Level < zapcore.WarnLevel || b.said.news(e.Message, e.Time)) {
		return ce.AddCore(e, b)
	}
	return ce
}

// Write implements zapcore.Core.
func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range append(b.fields[:len(b.fields):len(b.fields)], fields...) {
		f.AddTo(m)
	}
	attrs := make([]slog.Attr, 0, len(m.Fields))
	for k, v := range m.Fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	b.log.LogAttrs(context.Background(), level(e.Level), e.Message, attrs...)
	return nil
}

// Sync implements zapcore.Core.
func (*bridge) Sync() error { return nil }

// said keeps what a dead member makes etcd say every few seconds to once a minute.
type said struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const sayAgain = time.Minute

func (s *said) news(message string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.last[message]) < sayAgain {
		return false
	}
	if s.last == nil || len(s.last) > 1000 {
		s.last = map[string]time.Time{}
	}
	s.last[message] = now
	return true
}

// Interface guards.
var (
	_ zapcore.Core           = (*bridge)(nil)
	_ zapcore.CheckWriteHook = onEnd(nil)
)
