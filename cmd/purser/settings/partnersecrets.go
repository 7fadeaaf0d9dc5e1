package settings

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"purser/actors/partner/sandbox"
	"purser/actors/reports"
	"purser/httpapi/webhook"
)

// PartnerSecrets are the secrets that sign the reports of partners, each one secret, or two while
// it rotates. The first one signs what this program sends.
type PartnerSecrets struct {
	Common []string            // for partners without their own; empty: made at the start
	Own    map[string][]string // by partner, of reports.Partners
}

// SecretsOf returns the secrets of a partner.
func (p PartnerSecrets) SecretsOf(partner string) []string {
	if own := p.Own[partner]; len(own) > 0 {
		return own
	}
	return p.Common
}

// ByPartner returns the secrets of every partner.
func (p PartnerSecrets) ByPartner() map[string][]string {
	all := map[string][]string{}
	for _, partner := range reports.Partners() {
		all[partner] = p.SecretsOf(partner)
	}
	return all
}

// PartnerSecretFileOf names the file of a partner's own secret in the data directory.
func PartnerSecretFileOf(partner string) string { return PartnerSecretFile + "-" + partner }

// PartnerSecretSetting names the setting of a partner's own secret.
func PartnerSecretSetting(partner string) string {
	return "PURSER_PARTNER_SECRET_" + strings.ToUpper(partner)
}

// PartnerOfSecret returns the partner whose own secret a file has; "" for any other file.
func PartnerOfSecret(file string) string {
	for _, partner := range reports.Partners() {
		if file == PartnerSecretFileOf(partner) {
			return partner
		}
	}
	return ""
}

// PartnerSecrets reads the secrets of partners from the settings.
func (f *Faults) partnerSecrets(s Settings) PartnerSecrets {
	p := PartnerSecrets{Common: f.Secrets("PURSER_PARTNER_SECRET", s.PartnerSecret), Own: map[string][]string{}}
	for partner, value := range map[string]string{reports.Bank: s.PartnerSecretBank,
		reports.Ramp: s.PartnerSecretRamp, reports.Stablecoin: s.PartnerSecretCoin} {
		if secrets := f.Secrets(PartnerSecretSetting(partner), value); secrets != nil {
			p.Own[partner] = secrets
		}
	}
	return p
}

func (f *Faults) signatures(name, value string) webhook.Versions {
	versions, err := webhook.ParseVersions(value)
	if err != nil {
		f.Add(name, "%q %v", value, err)
	}
	return versions
}

// findPartnerSecrets fills in the secrets of partners that were not configured. A partner has a
// secret of its own when a setting or a file has one.
func (f *Faults) findPartnerSecrets(c *Config) {
	p := &c.PartnerSecrets
	if len(p.Common) == 0 {
		p.Common = f.Secrets(PartnerSecretFile, f.secretFile(c, PartnerSecretFile))
	}
	if p.Own == nil {
		p.Own = map[string][]string{}
	}
	for _, partner := range reports.Partners() {
		if len(p.Own[partner]) > 0 {
			continue
		}
		file := PartnerSecretFileOf(partner)
		path := filepath.Join(c.DataDir, file)
		text, err := ReadSecret(path)
		if err == nil {
			err = addSum(path)
		}
		switch {
		case err == nil:
			p.Own[partner] = f.Secrets(file, text)
		case !errors.Is(err, fs.ErrNotExist):
			*f = append(*f, err)
		}
	}
}

// ReportSigner signs the reports of a partner that this program plays.
func ReportSigner(secret string, clock func() time.Time) sandbox.Signer {
	return func(method, path string, body []byte) string {
		return webhook.SignRequest(secret, clock(), webhook.Request{Method: method, Path: path, Body: body})
	}
}
