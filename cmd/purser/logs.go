package main

import (
	"io"
	"log/slog"
)

// Formats of the log.
const (
	logText = "text"
	logJSON = "json"
)

// newLogger writes lines of key=value, or a JSON document a line.
func newLogger(to io.Writer, c Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == logJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}
