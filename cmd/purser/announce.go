package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/buildinfo"
)

// developmentText begins the secrets of docker-compose.yml, which everybody can read.
const developmentText = "development"

// developmentOnly names the settings that no deployment should have, before the missing secrets are
// made.
func (c *Config) developmentOnly() (notes []string) {
	note := func(applies bool, text string) {
		if applies {
			notes = append(notes, text)
		}
	}
	var made []string
	for _, secret := range []struct {
		missing bool
		name    string
	}{{len(c.NetworkSecrets) == 0, "PURSER_NETWORK_SECRET"},
		{len(c.PartnerSecrets.common) == 0, "PURSER_PARTNER_SECRET"},
		{len(c.DataKeys) == 0, "PURSER_DATA_KEY"}} {
		if secret.missing {
			made = append(made, secret.name)
		}
	}
	note(len(made) > 0, strings.Join(made, ", ")+
		" not set: the secrets are files in the data directory, beside what they protect")
	known := false
	for _, held := range c.heldSecrets() {
		known = known || slices.ContainsFunc(held.values,
			func(value string) bool { return strings.HasPrefix(value, developmentText) })
	}
	for _, key := range c.DataKeys {
		known = known || strings.HasPrefix(string(key), developmentText)
	}
	note(known, "a secret is that of docker-compose.yml, which everybody can read")
	note(c.PrivateWebhooks, "PURSER_ALLOW_PRIVATE_WEBHOOKS lets webhooks lead to private addresses")
	note(c.RateLimits.Off, "PURSER_RATE_LIMITS is off: no caller is limited")
	note(c.Refusals == 0, "PURSER_REFUSALS is off: a flood of refused requests is answered")
	note(!c.AuthorizerSync, "PURSER_AUTHORIZER_SYNC is false: a crash loses answers")
	return notes
}

// announce prints the addresses of the server and the settings that are for development only. A
// JSON log has warnings instead: its reader is a program.
func (m *Main) announceStart(out io.Writer) error {
	if m.config.LogFormat == logJSON {
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
	fmt.Fprintf(&text, "Purser %s\n  REST          %s\n  card network  %s\n  admin         %s\n  data          %s\n",
		buildinfo.Version,
		m.config.url(adminport.Reachable(m.listeners.http.Addr())), m.config.url(adminport.Reachable(m.listeners.authorizer.Addr())), admin, data)
	text.WriteString("This is a sandbox: no route moves real money.\n")
	for _, note := range m.development {
		fmt.Fprintf(&text, "For development only: %s.\n", note)
	}
	_, err = io.WriteString(out, text.String())
	return err
}
