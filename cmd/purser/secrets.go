package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"purser/actors"
	"purser/actors/seal"
	"purser/authorizer"
	"purser/cmd/purser/datadir"
	"purser/httpapi"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
)

// The files of secrets in the data directory. Each is there when the setting of the same secret is
// not.
const (
	partnerSecretFile = "partner-secret"
	dataKeyFile       = "data-key"
	checkoutSeedFile  = "checkout-seed"
)

// secretsToKeep names the secrets that are in no backup.
const secretsToKeep = "data-key, network-secret, partner-secret with each partner's own " +
	"(partner-secret-bank, -ramp, -stablecoin) and checkout-seed, or the settings in their place"

// secretSettings says which setting takes the place of a file.
var secretSettings = map[string]string{datadir.NetworkSecretFile: "PURSER_NETWORK_SECRET",
	partnerSecretFile: "PURSER_PARTNER_SECRET",
	dataKeyFile:       "PURSER_DATA_KEY", checkoutSeedFile: "PURSER_CHECKOUT_XPUB_EVM or PURSER_CHECKOUT_XPUB_BTC"}

// settingOf returns the setting that takes the place of a file of a secret.
func settingOf(file string) string {
	if partner := partnerOfSecret(file); partner != "" {
		return partnerSecretSetting(partner)
	}
	return secretSettings[file]
}

// findSecrets fills in the secrets that were not configured, from the data directory. Only a
// directory without stores gets new ones: stores that have used others would be served under
// secrets that no partner knows.
func (c *Config) findSecrets() error {
	var f faults
	if len(c.NetworkSecrets) == 0 {
		c.NetworkSecrets = f.secrets(datadir.NetworkSecretFile, f.secretFile(c, datadir.NetworkSecretFile))
	}
	f.findPartnerSecrets(c)
	f.sharedSecrets(c.heldSecrets())
	if len(c.DataKeys) == 0 {
		c.DataKeys = f.dataKeys(f.secretFile(c, dataKeyFile))
	}
	if c.CheckoutAccounts == nil {
		if text := f.secretFile(c, checkoutSeedFile); text != "" {
			c.CheckoutAccounts = f.sandboxAccounts(text)
		}
	}
	return errors.Join(f...)
}

// fingerprints returns the marks of the secrets that others sign with or show. The data key has its
// own check, because nothing opens without it.
func (c *Config) fingerprints(deployment ident.UUID) (secrets []actors.Secret) {
	for _, held := range c.heldSecrets() {
		secret := actors.Secret{Name: held.file}
		for _, value := range held.values {
			secret.Fingerprints = append(secret.Fingerprints, fingerprintOf(deployment, held.file, value))
		}
		secrets = append(secrets, secret)
	}
	return secrets
}

// fingerprintOf returns the hash by which the stores of a deployment recognise a value of a secret.
func fingerprintOf(deployment ident.UUID, name, value string) string {
	return seal.Fingerprint(hex.EncodeToString(deployment[:]), name, value)
}

// heldSecret is a secret that the deployment shares with the card network or with partners, its
// holders. values are the valid ones, the newest first. file names the secret, also when a setting
// has it.
type heldSecret struct {
	file   string
	values []string
}

// heldSecrets returns the secrets of the card network and of the partners.
func (c *Config) heldSecrets() []heldSecret {
	held := []heldSecret{{datadir.NetworkSecretFile, c.NetworkSecrets}, {partnerSecretFile, c.PartnerSecrets.common}}
	for _, partner := range httpapi.Partners() {
		if own := c.PartnerSecrets.own[partner]; len(own) > 0 {
			held = append(held, heldSecret{partnerSecretFileOf(partner), own})
		}
	}
	return held
}

// heldSecretFiles returns the files of all secrets that heldSecrets may return, in its order.
func heldSecretFiles() []string {
	files := []string{datadir.NetworkSecretFile, partnerSecretFile}
	for _, partner := range httpapi.Partners() {
		files = append(files, partnerSecretFileOf(partner))
	}
	return files
}

// sharedSecrets refuses a secret that two holders have, because either could sign for the other.
func (f *faults) sharedSecrets(held []heldSecret) {
	for i, other := range held {
		for _, secret := range held[i+1:] {
			if secret.isSharedWith(other) {
				f.add(settingOf(secret.file), "has a secret of %s too: the card network and each partner need secrets "+
					"of their own (to change them without an interruption, set NEW,OLD in both)", settingOf(other.file))
			}
		}
	}
}

// isSharedWith reports whether the newest value of one secret is valid for the other. Two old
// values may be equal, because the end of either rotation drops one.
func (s heldSecret) isSharedWith(other heldSecret) bool {
	if len(s.values) == 0 || len(other.values) == 0 {
		return false
	}
	return slices.Contains(other.values, s.values[0]) && !other.replacesCommon(s) ||
		slices.Contains(s.values, other.values[0]) && !s.replacesCommon(other)
}

// replacesCommon reports whether s is a partner's own secret that takes the place of the common
// one. Until that rotation ends, the common secret is the old value of s.
func (s heldSecret) replacesCommon(common heldSecret) bool {
	return common.file == partnerSecretFile && partnerOfSecret(s.file) != "" && s.values[0] != common.values[0]
}

// secretFile reads a secret of the data directory, or makes it where there are no stores yet.
func (f *faults) secretFile(c *Config, name string) string {
	path := filepath.Join(c.DataDir, name)
	text, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if hasStores(c.DataDir) {
			*f = append(*f, missingSecret(c.DataDir, name))
			return ""
		}
		c.madeSecrets = append(c.madeSecrets, name)
		text, err = makeSecret(path)
	}
	if err == nil {
		err = addSum(path)
	}
	if err != nil {
		*f = append(*f, err)
	}
	return text
}

// missingSecret names a secret that is missing beside stores that have used one, and the repair.
func missingSecret(data, name string) error {
	repair := fmt.Sprintf("put it back, set %s, or make a new one with `purser rotate %s --lost --data-dir %s`",
		settingOf(name), name, data)
	if name == dataKeyFile {
		repair = fmt.Sprintf("put it back, or set %s: no other key opens what is sealed under it", settingOf(name))
	}
	return fmt.Errorf("%s is missing, but the stores have used one: %s", filepath.Join(data, name), repair)
}

// hasStores reports whether a data directory has a store that may have used secrets.
func hasStores(data string) bool {
	return pebblejournal.Exists(nil, datadir.JournalDir(data)) || authorizer.Exists(nil, datadir.AuthorizerDir(data))
}

// secretsBelong refuses secrets that this start has made for a journal in a database that has
// events: the journal has used others. The files go again, so that the next start names them too.
func (c *Config) secretsBelong(journal persistence.Journal) error {
	if len(c.madeSecrets) == 0 || c.DatabaseURL == "" || !datadir.HasEvents(journal) {
		return nil
	}
	var faults []error
	for _, name := range c.madeSecrets {
		path := filepath.Join(c.DataDir, name)
		faults = append(faults, missingSecret(c.DataDir, name), dropSum(path), os.Remove(path))
	}
	return errors.Join(faults...)
}

// readSecret reads a file's secret, or several with commas. It refuses a file that differs from its
// checksum.
func readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = verifySum(path, text)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("%s is empty: put the secret back, or remove the file and see what a start says", path)
	}
	return secret, nil
}

// newSecret draws 32 random bytes and returns them in hexadecimal digits.
func newSecret() (string, error) {
	random := make([]byte, dataKeyBytes)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	return hex.EncodeToString(random), nil
}

// makeSecret makes a secret and keeps it in a file, readable by the owner alone and synced before
// it is used.
func makeSecret(path string) (string, error) {
	secret, err := newSecret()
	if err != nil {
		return "", err
	}
	return secret, writeSecret(path, secret)
}

// openSealer makes a Sealer of the data keys of a setting, or of a data directory when the setting
// is empty. It makes no key.
func openSealer(data, setting string) (*seal.Sealer, error) {
	if setting == "" {
		text, err := readSecret(filepath.Join(data, dataKeyFile))
		if err != nil {
			return nil, fmt.Errorf("the data key: %w (put it there, or set PURSER_DATA_KEY)", err)
		}
		setting = text
	}
	var f faults
	keys := f.dataKeys(setting)
	if err := errors.Join(f...); err != nil {
		return nil, err
	}
	return seal.New(keys[0], rand.Reader, keys[1:]...)
}
