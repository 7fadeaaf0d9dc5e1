package settings

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
	"purser/actors/reports"
	"purser/actors/seal"
	"purser/authorizer"
	"purser/cmd/purser/datadir"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
)

// The files of secrets in the data directory. Each is there when the setting of the same secret is
// not.
const (
	PartnerSecretFile = "partner-secret"
	DataKeyFile       = "data-key"
	CheckoutSeedFile  = "checkout-seed"
	// OperatorSecretFile is made anew whenever it is missing, because no partner knows the secret.
	OperatorSecretFile = "operator-secret"
)

// SecretsToKeep names the secrets that are in no backup.
const SecretsToKeep = "data-key, network-secret, partner-secret with each partner's own " +
	"(partner-secret-bank, -ramp, -stablecoin) and checkout-seed, or the settings in their place"

// SecretSettings are the settings that replace the files of secrets, by file.
var SecretSettings = map[string]string{datadir.NetworkSecretFile: "PURSER_NETWORK_SECRET",
	PartnerSecretFile: "PURSER_PARTNER_SECRET",
	DataKeyFile:       "PURSER_DATA_KEY", CheckoutSeedFile: "PURSER_CHECKOUT_XPUB_EVM or PURSER_CHECKOUT_XPUB_BTC"}

// SettingOf returns the setting that takes the place of a file of a secret.
func SettingOf(file string) string {
	if partner := PartnerOfSecret(file); partner != "" {
		return PartnerSecretSetting(partner)
	}
	return SecretSettings[file]
}

// FindSecrets fills in the secrets that were not configured, from the data directory. Only a
// directory without stores gets new ones: stores that have used others would be served under
// secrets that no partner knows. It fails for a missing, damaged or unusable secret, and for one
// that two holders share; the error names every fault. It is a step of the server's start.
func (c *Config) FindSecrets() error {
	var f Faults
	if len(c.NetworkSecrets) == 0 {
		c.NetworkSecrets = f.Secrets(datadir.NetworkSecretFile, f.secretFile(c, datadir.NetworkSecretFile))
	}
	f.findPartnerSecrets(c)
	f.RefuseShared(c.HeldSecrets())
	if len(c.DataKeys) == 0 {
		c.DataKeys = f.dataKeys(f.secretFile(c, DataKeyFile))
	}
	if c.CheckoutAccounts == nil {
		if text := f.secretFile(c, CheckoutSeedFile); text != "" {
			c.CheckoutAccounts, c.checkoutSeed = f.sandboxAccounts(text), text
		}
	}
	f.findOperatorSecret(c)
	return errors.Join(f...)
}

// Fingerprints returns the marks of the secrets that others sign with or show, and of the seed of
// the sandbox's addresses. The data key has its own check, because nothing opens without it. The
// actors compare them at a start with those that the journal has.
func (c *Config) Fingerprints(deployment ident.UUID) (secrets []actors.Secret) {
	for _, held := range c.HeldSecrets() {
		secret := actors.Secret{Name: held.File}
		for _, value := range held.Values {
			secret.Fingerprints = append(secret.Fingerprints, FingerprintOf(deployment, held.File, value))
		}
		secrets = append(secrets, secret)
	}
	seed := actors.Secret{Name: CheckoutSeedFile, OfAddresses: true}
	if c.checkoutSeed != "" {
		seed.Fingerprints = []string{FingerprintOf(deployment, CheckoutSeedFile, c.checkoutSeed)}
	}
	return append(secrets, seed)
}

// FingerprintOf returns the hash by which the stores of a deployment recognise a value of a secret.
func FingerprintOf(deployment ident.UUID, name, value string) string {
	return seal.Fingerprint(hex.EncodeToString(deployment[:]), name, value)
}

// HeldSecret is a secret that the deployment shares with the card network or with partners, its
// holders. values are the valid ones, the newest first. file names the secret, also when a setting
// has it.
type HeldSecret struct {
	File   string
	Values []string
}

// HeldSecrets returns the secrets of the card network and of the partners.
func (c *Config) HeldSecrets() []HeldSecret {
	held := []HeldSecret{{datadir.NetworkSecretFile, c.NetworkSecrets}, {PartnerSecretFile, c.PartnerSecrets.Common}}
	for _, partner := range reports.Partners() {
		if own := c.PartnerSecrets.Own[partner]; len(own) > 0 {
			held = append(held, HeldSecret{PartnerSecretFileOf(partner), own})
		}
	}
	return held
}

// HeldSecretFiles returns the files of all secrets that HeldSecrets may return, in its order.
func HeldSecretFiles() []string {
	files := []string{datadir.NetworkSecretFile, PartnerSecretFile}
	for _, partner := range reports.Partners() {
		files = append(files, PartnerSecretFileOf(partner))
	}
	return files
}

// RefuseShared refuses a secret that two holders have, because either could sign for the other.
func (f *Faults) RefuseShared(held []HeldSecret) {
	for i, other := range held {
		for _, secret := range held[i+1:] {
			if secret.isSharedWith(other) {
				f.Add(SettingOf(secret.File), "has a secret of %s too: the card network and each partner need secrets "+
					"of their own (to change them without an interruption, set NEW,OLD in both)", SettingOf(other.File))
			}
		}
	}
}

// isSharedWith reports whether the newest value of one secret is valid for the other. Two old
// values may be equal, because the end of either rotation drops one.
func (s HeldSecret) isSharedWith(other HeldSecret) bool {
	if len(s.Values) == 0 || len(other.Values) == 0 {
		return false
	}
	return slices.Contains(other.Values, s.Values[0]) && !other.replacesCommon(s) ||
		slices.Contains(s.Values, other.Values[0]) && !s.replacesCommon(other)
}

// replacesCommon reports whether s is a partner's own secret that takes the place of the common
// one. Until that rotation ends, s has the common secret too, as its old value.
func (s HeldSecret) replacesCommon(common HeldSecret) bool {
	return common.File == PartnerSecretFile && PartnerOfSecret(s.File) != "" && s.Values[0] != common.Values[0]
}

// secretFile reads a secret of the data directory, or makes it where there are no stores yet.
func (f *Faults) secretFile(c *Config, name string) string {
	path := filepath.Join(c.DataDir, name)
	text, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if hasStores(c.DataDir) {
			*f = append(*f, MissingSecret(c.DataDir, name))
			return ""
		}
		c.madeSecrets = append(c.madeSecrets, name)
		text, err = MakeSecret(path)
	}
	if err == nil {
		err = addSum(path)
	}
	if err != nil {
		*f = append(*f, err)
	}
	return text
}

// MissingSecret names a secret that is missing beside stores that have used one, and the repair.
func MissingSecret(data, name string) error {
	repair := fmt.Sprintf("put it back, set %s, or make a new one with `purser rotate %s --lost --data-dir %s`",
		SettingOf(name), name, data)
	if name == DataKeyFile {
		repair = fmt.Sprintf("put it back, or set %s: no other key opens what is sealed under it", SettingOf(name))
	}
	return fmt.Errorf("%s is missing, but the stores have used one: %s", filepath.Join(data, name), repair)
}

// hasStores reports whether a data directory has a store that may have used secrets.
func hasStores(data string) bool {
	return pebblejournal.Exists(nil, datadir.JournalDir(data)) || authorizer.Exists(nil, datadir.AuthorizerDir(data))
}

// SecretsBelong refuses secrets that this start has made for a journal in a database that has
// events: the journal has used others. The files go again, so that the next start names them too.
// The error names each of them and its repair. It is part of the server's start.
func (c *Config) SecretsBelong(journal persistence.Journal) error {
	if len(c.madeSecrets) == 0 || c.DatabaseURL == "" || !datadir.HasEvents(journal) {
		return nil
	}
	var faults []error
	for _, name := range c.madeSecrets {
		path := filepath.Join(c.DataDir, name)
		faults = append(faults, MissingSecret(c.DataDir, name), DropSum(path), os.Remove(path))
	}
	return errors.Join(faults...)
}

// ReadSecret reads a file's secret, or several with commas. It refuses a file that differs from its
// checksum. It fails with fs.ErrNotExist for a missing file, and for an empty one.
func ReadSecret(path string) (string, error) {
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

// NewSecret draws 32 random bytes and returns them in hexadecimal digits. It fails only without
// entropy.
func NewSecret() (string, error) {
	random := make([]byte, DataKeyBytes)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	return hex.EncodeToString(random), nil
}

// MakeSecret makes a secret and keeps it in a file, readable by the owner alone and synced before
// it is used. It fails without entropy and with the file system's error.
func MakeSecret(path string) (string, error) {
	secret, err := NewSecret()
	if err != nil {
		return "", err
	}
	return secret, WriteSecret(path, secret)
}

// OpenSealer makes a Sealer of the data keys of a setting, or of a data directory when the setting
// is empty. It makes no key. It fails for a missing or unusable key.
func OpenSealer(data, setting string) (*seal.Sealer, error) {
	if setting == "" {
		text, err := ReadSecret(filepath.Join(data, DataKeyFile))
		if err != nil {
			return nil, fmt.Errorf("the data key: %w (put it there, or set PURSER_DATA_KEY)", err)
		}
		setting = text
	}
	var f Faults
	keys := f.dataKeys(setting)
	if err := errors.Join(f...); err != nil {
		return nil, err
	}
	return seal.New(keys[0], rand.Reader, keys[1:]...)
}
