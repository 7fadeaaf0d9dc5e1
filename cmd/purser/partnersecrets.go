package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"purser/actors/partner/sandbox"
	"purser/httpapi"
	"purser/httpapi/webhook"
)

// partnerSecrets are the secrets that sign the reports of partners, each one secret, or two while
// it rotates. The first one signs what this program sends.
type partnerSecrets struct {
	common []string            // for partners without their own; empty: made at the start
	own    map[string][]string // by partner, of httpapi.Partners
}

// secretsOf returns the secrets of a partner.
func (p partnerSecrets) secretsOf(partner string) []string {
	if own := p.own[partner]; len(own) > 0 {
		return own
	}
	return p.common
}

// byPartner returns the secrets of every partner.
func (p partnerSecrets) byPartner() map[string][]string {
	all := map[string][]string{}
	for _, partner := range httpapi.Partners() {
		all[partner] = p.secretsOf(partner)
	}
	return all
}

// partnerSecretFileOf names the file of a partner's own secret in the data directory.
func partnerSecretFileOf(partner string) string { return partnerSecretFile + "-" + partner }

// partnerSecretSetting names the setting of a partner's own secret.
func partnerSecretSetting(partner string) string {
	return "PURSER_PARTNER_SECRET_" + strings.ToUpper(partner)
}

// partnerOfSecret returns the partner whose own secret a file has; "" for any other file.
func partnerOfSecret(file string) string {
	for _, partner := range httpapi.Partners() {
		if file == partnerSecretFileOf(partner) {
			return partner
		}
	}
	return ""
}

// partnerSecrets reads the secrets of partners from the settings.
func (f *faults) partnerSecrets(s Settings) partnerSecrets {
	p := partnerSecrets{common: f.secrets("PURSER_PARTNER_SECRET", s.PartnerSecret), own: map[string][]string{}}
	for partner, value := range map[string]string{httpapi.PartnerBank: s.PartnerSecretBank,
		httpapi.PartnerRamp: s.PartnerSecretRamp, httpapi.PartnerStablecoin: s.PartnerSecretCoin} {
		if secrets := f.secrets(partnerSecretSetting(partner), value); secrets != nil {
			p.own[partner] = secrets
		}
	}
	return p
}

func (f *faults) signatures(name, value string) webhook.Versions {
	versions, err := webhook.ParseVersions(value)
	if err != nil {
		f.add(name, "%q %v", value, err)
	}
	return versions
}

// findPartnerSecrets fills in the secrets of partners that were not configured. A partner has a
// secret of its own when a setting or a file has one.
func (f *faults) findPartnerSecrets(c *Config) {
	p := &c.PartnerSecrets
	if len(p.common) == 0 {
		p.common = f.secrets(partnerSecretFile, f.secretFile(c, partnerSecretFile))
	}
	if p.own == nil {
		p.own = map[string][]string{}
	}
	for _, partner := range httpapi.Partners() {
		if len(p.own[partner]) > 0 {
			continue
		}
		file := partnerSecretFileOf(partner)
		path := filepath.Join(c.DataDir, file)
		text, err := readSecret(path)
		if err == nil {
			err = addSum(path)
		}
		switch {
		case err == nil:
			p.own[partner] = f.secrets(file, text)
		case !errors.Is(err, fs.ErrNotExist):
			*f = append(*f, err)
		}
	}
}

// reportSigner signs the reports of a partner that this program plays.
func reportSigner(secret string, clock func() time.Time) sandbox.Signer {
	return func(method, path string, body []byte) string {
		return webhook.SignRequest(secret, clock(), webhook.Request{Method: method, Path: path, Body: body})
	}
}

// newPartnerSecret begins the rotation of a partner's own secret that it does not have yet: the
// common secret, under which it signs so far, stays valid beside the new one.
func (c *RotateCmd) newPartnerSecret() (secrets []string, err error) {
	common := filepath.Join(c.DataDir, partnerSecretFile)
	text, err := readSecret(common)
	setting := partnerSecretSetting(partnerOfSecret(c.Secret))
	if c.PartnerSecret != "" || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not have the common secret: to give the partner a secret of its own set %s "+
			"to NEW,OLD, OLD being PURSER_PARTNER_SECRET, and to NEW alone afterwards (`openssl rand -hex %d` makes one)",
			common, setting, dataKeyBytes)
	}
	if err != nil {
		return nil, err
	}
	if secrets = strings.Split(text, ","); len(secrets) > 1 {
		return nil, fmt.Errorf("%s is rotating: end that first with `purser rotate %s --finish`", partnerSecretFile,
			partnerSecretFile)
	}
	return secrets, nil
}
