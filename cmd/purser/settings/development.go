package settings

import (
	"slices"
	"strings"
)

// developmentText begins the secrets of docker-compose.yml, which everybody can read.
const developmentText = "development"

// DevelopmentOnly names the settings that no deployment should have, before the missing secrets are
// made. The serve command prints them.
func (c *Config) DevelopmentOnly() (notes []string) {
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
		{len(c.PartnerSecrets.Common) == 0, "PURSER_PARTNER_SECRET"},
		{len(c.DataKeys) == 0, "PURSER_DATA_KEY"}} {
		if secret.missing {
			made = append(made, secret.name)
		}
	}
	note(len(made) > 0, strings.Join(made, ", ")+
		" not set: the secrets are files in the data directory, beside what they protect")
	known := false
	for _, held := range c.HeldSecrets() {
		known = known || slices.ContainsFunc(held.Values,
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
