package settings

import (
	"io"
	"log/slog"

	"purser/persistence/ident"
)

// Formats of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// NewLogger writes lines of key=value, or a JSON document a line. No line has a secret of Purser.
func NewLogger(to io.Writer, c Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: plainAttribute}
	if c.LogFormat == LogJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// plainAttribute writes an error as its message, because the text format would write the stack
// trace that Pebble's errors carry, over many lines. It redacts what looks like a secret of Purser
// in any value.
func plainAttribute(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(ident.RedactSecrets(a.Value.String()))
	case slog.KindAny:
		value := a.Value.Any()
		if err, ok := value.(error); ok {
			a.Value = slog.StringValue(ident.RedactSecrets(err.Error()))
			break
		}
		text := a.Value.String()
		if bytes, ok := value.([]byte); ok {
			text = string(bytes)
		}
		if redacted := ident.RedactSecrets(text); redacted != text {
			a.Value = slog.StringValue(redacted)
		}
	}
	return a
}
