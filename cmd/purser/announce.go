package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/buildinfo"
	"purser/cmd/purser/settings"
	"purser/httpapi/dashboard"
)

// announceStart prints the addresses of the server and the settings that are for development only.
// A JSON log has warnings instead: its reader is a program. It fails only when the output cannot be
// written.
func (m *daemon) announceStart(out io.Writer) error {
	if m.config.LogFormat == settings.LogJSON {
		for _, note := range m.development {
			m.log.Warn("for development only", "setting", note)
		}
		return nil
	}
	data, err := filepath.Abs(m.config.DataDir)
	if err != nil {
		return err
	}
	admin := adminport.Reachable(m.listeners.admin.Addr())
	if _, isUnix := adminport.SocketPath(admin); !isUnix {
		admin = "http://" + admin
	}
	var text strings.Builder
	rest := m.config.URLOf(adminport.Reachable(m.listeners.http.Addr()))
	fmt.Fprintf(&text, "Purser %s\n  dashboard     %s%s\n  REST          %s\n  card network  %s\n  admin         %s\n  data          %s\n",
		buildinfo.Version, rest, dashboard.Root, rest, m.config.URLOf(adminport.Reachable(m.listeners.authorizer.Addr())), admin, data)
	text.WriteString("This is a sandbox: no route moves real money.\n")
	for _, note := range m.development {
		fmt.Fprintf(&text, "For development only: %s.\n", note)
	}
	_, err = io.WriteString(out, text.String())
	return err
}
