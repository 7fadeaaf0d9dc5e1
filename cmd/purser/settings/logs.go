package settings

import (
	"io"
	"log/slog"
)

// Formats of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// NewLogger writes lines of key=value, or a JSON document a line.
func NewLogger(to io.Writer, c Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: plainError}
	if c.LogFormat == LogJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// plainError writes an error as its message. The text format would write the stack trace that
// Pebble's errors carry, over many lines.
func plainError(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}
