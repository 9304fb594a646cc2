package edge

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/edgeward/edgeward/relay/session"
)

// accessLog writes one line for each ended connection. The server name is the
// visitor's word; the encoders escape it.
func accessLog(log *zap.Logger) func(session.Record) {
	return func(r session.Record) {
		c := log.Check(level(r.Reason), message(r.Reason))
		if c == nil {
			return
		}
		fields := []zap.Field{
			zap.Stringer("remote", r.Source), zap.String("listener", r.Listener), zap.Stringer("reason", r.Reason),
			zap.Duration("duration", r.Duration), zap.Uint64("bytes_up", r.BytesUp), zap.Uint64("bytes_down", r.BytesDown),
		}
		add := func(name, value string) {
			if value != "" {
				fields = append(fields, zap.String(name, value))
			}
		}
		add("server_name", r.Name)
		add("route", r.Route)
		add("pool", r.Pool)
		add("gateway", r.Gateway)
		add("setting", r.Reason.Setting())
		add("detail", r.Detail)
		if r.Hello.Bytes > 0 {
			fields = append(fields, zap.Int("hello_bytes", r.Hello.Bytes), zap.Int("hello_segments", r.Hello.Segments),
				zap.Int("hello_records", r.Hello.Records), zap.Bool("ech", r.Hello.ECH))
		}
		if r.Dials > 0 {
			fields = append(fields, zap.Int("dials", r.Dials))
		}
		if r.Gateway != "" {
			fields = append(fields, zap.Duration("connected", r.Connected), zap.Duration("first_byte", r.FirstByte))
		}
		c.Write(fields...)
	}
}

func message(why session.Reason) string {
	if why.Refusal() {
		return "refused"
	}
	return "closed"
}

func level(why session.Reason) zapcore.Level {
	switch why {
	case session.Internal:
		return zapcore.ErrorLevel
	case session.Outage:
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}
