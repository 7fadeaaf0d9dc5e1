package storecare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"purser/actors"
	"purser/actors/fault"
	"purser/actors/reports"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
)

// RotateCmd changes a secret that the data directory keeps. A server reads it at its next start. A
// rotation has two steps: the first makes a new secret and keeps the old one valid, --finish drops
// the old one.
type RotateCmd struct {
	datadir.Stores
	Secret  string `arg:"" enum:"data-key,network-secret,partner-secret,partner-secret-bank,partner-secret-ramp,partner-secret-stablecoin,checkout-seed" help:"data-key, network-secret, partner-secret, that of one partner (partner-secret-bank, -ramp or -stablecoin), or checkout-seed."`
	Finish  bool   `name:"finish" xor:"step" help:"Drop the old secret. Refused before a server has started with the new one, and for data-key before all documents are sealed under it."`
	Lost    bool   `name:"lost" xor:"step" help:"Make the secret although stores have used another one, which is lost."`
	DataKey string `name:"data-key" env:"PURSER_DATA_KEY" secret:"" help:"As of purser serve: opens what the stores know of the secrets, when no server runs."`

	NetworkSecret     string `name:"network-secret" env:"PURSER_NETWORK_SECRET" secret:"" help:"As of purser serve. A secret that a setting has does not rotate in the data directory."`
	PartnerSecret     string `name:"partner-secret" env:"PURSER_PARTNER_SECRET" secret:"" help:"Likewise, as the three that follow."`
	PartnerSecretBank string `name:"partner-secret-bank" env:"PURSER_PARTNER_SECRET_BANK" secret:""`
	PartnerSecretRamp string `name:"partner-secret-ramp" env:"PURSER_PARTNER_SECRET_RAMP" secret:""`
	PartnerSecretCoin string `name:"partner-secret-stablecoin" env:"PURSER_PARTNER_SECRET_STABLECOIN" secret:""`
}

const (
	rotateWithin = time.Minute
	maxKeysText  = 64 << 10 // bytes of a server's answer
)

// Run is `purser rotate`: it does a step of a secret's rotation and prints the next one. It fails
// for a secret that a setting holds, for a step out of order, and with the disk's error; the
// secrets then stay.
func (c *RotateCmd) Run(out io.Writer) error {
	if err := c.requireFileInUse(); err != nil {
		return err
	}
	path := filepath.Join(c.DataDir, c.Secret)
	text, err := settings.ReadSecret(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.Lost:
		return c.replaceLost(path, out)
	case errors.Is(err, fs.ErrNotExist) && !c.Finish && settings.PartnerOfSecret(c.Secret) != "":
		secrets, err := c.newPartnerSecret()
		if err != nil {
			return err
		}
		return c.addSecret(path, secrets[0], out)
	case c.Secret == settings.CheckoutSeedFile && !c.Lost:
		return errors.New("checkout-seed does not rotate: addresses that were handed out derive from it " +
			"(--lost makes a new one where the file is lost)")
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there. Where %s has the secret, it rotates there: set NEW,OLD, and NEW alone "+
			"afterwards (`openssl rand -hex %d` makes one). Where the file is lost, --lost makes a new one, "+
			"except of data-key", path, settings.SettingOf(c.Secret), settings.DataKeyBytes)
	case err != nil:
		return err
	case c.Lost:
		return fmt.Errorf("--lost: %s is there, so it is not lost", path)
	}
	secrets := strings.Split(text, ",")
	if c.Finish {
		return c.dropOld(path, secrets, out)
	}
	if len(secrets) > 1 {
		return fmt.Errorf("%s is rotating already: end that first with `purser rotate %s --finish`", c.Secret, c.Secret)
	}
	return c.addSecret(path, secrets[0], out)
}

// requireFileInUse refuses to make a secret in a file whose place a setting takes: no server would
// read it.
func (c *RotateCmd) requireFileInUse() error {
	set := map[string]string{settings.DataKeyFile: c.DataKey, datadir.NetworkSecretFile: c.NetworkSecret,
		settings.PartnerSecretFile:                       c.PartnerSecret,
		settings.PartnerSecretFileOf(reports.Bank):       c.PartnerSecretBank,
		settings.PartnerSecretFileOf(reports.Ramp):       c.PartnerSecretRamp,
		settings.PartnerSecretFileOf(reports.Stablecoin): c.PartnerSecretCoin}
	if c.Finish || set[c.Secret] == "" {
		return nil
	}
	return fmt.Errorf("%s has the secret, and a server reads no file beside it: rotate it there, set NEW,OLD, "+
		"and NEW alone afterwards (`openssl rand -hex %d` makes one)", settings.SettingOf(c.Secret), settings.DataKeyBytes)
}

// addSecret puts a new secret before the one that is in use. It fails only with the disk's error.
func (c *RotateCmd) addSecret(path, inUse string, out io.Writer) error {
	fresh, err := settings.NewSecret()
	if err != nil {
		return err
	}
	if err := settings.WriteSecret(path, fresh+","+inUse); err != nil {
		return err
	}
	next := "wait until its log says that every personal document is sealed anew"
	if c.Secret != settings.DataKeyFile {
		next = fmt.Sprintf("give %s the new one (the first in the file)", holdersOf(c.Secret))
	}
	_, err = fmt.Fprintf(out, "%s has a new secret, and the old one stays valid: restart the server, %s, "+
		"then `purser rotate %s --finish`\n", path, next, c.Secret)
	if err == nil && c.Secret == settings.DataKeyFile {
		_, err = fmt.Fprintln(out, "backups from before need the old key (the second in the file), which --finish "+
			"destroys: keep it elsewhere first")
	}
	return err
}

// holdersOf names the card network or the partners that share the secret of a file.
func holdersOf(file string) string {
	switch partner := settings.PartnerOfSecret(file); {
	case partner != "":
		return "the " + partner + " partner"
	case file == datadir.NetworkSecretFile:
		return "the card network"
	}
	return "the partners without a secret of their own"
}

// replaceLost makes a new secret for a file that is lost. It refuses the data key, because nothing
// else opens the data that is sealed under it.
func (c *RotateCmd) replaceLost(path string, out io.Writer) error {
	if c.Secret == settings.DataKeyFile {
		return errors.New("--lost: a lost data key cannot be replaced: put it back, for nothing else opens what is " +
			"sealed under it")
	}
	if _, err := settings.MakeSecret(path); err != nil {
		return err
	}
	next := "give " + holdersOf(c.Secret) + " the new one"
	if c.Secret == settings.CheckoutSeedFile {
		next = "links that are made from now on get sandbox addresses of the new one"
	}
	_, err := fmt.Fprintf(out, "%s has a new secret, from the next start on: %s\n", path, next)
	return err
}

// dropOld keeps the first secret alone. It fails when there is only one, and while the old secret
// is still needed.
func (c *RotateCmd) dropOld(path string, secrets []string, out io.Writer) error {
	if len(secrets) == 1 {
		return fmt.Errorf("--finish: %s has one secret, and nothing is left to drop", path)
	}
	first := strings.TrimSpace(secrets[0])
	require := c.requireStarted
	if c.Secret == settings.DataKeyFile {
		require = c.requireSealedAnew
	}
	if err := errors.Join(c.requireOwn(first), require(first)); err != nil {
		return err
	}
	if err := settings.WriteSecret(path, first); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s has the new secret alone, from the next start on\n", path)
	return err
}

// requireSealedAnew refuses as long as documents may be sealed under another data key than the
// first.
func (c *RotateCmd) requireSealedAnew(first string) error {
	sealer, err := settings.OpenSealer(c.DataDir, first)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), rotateWithin)
	defer cancel()
	inUse, err := c.keysInUse(ctx)
	if err != nil {
		return err
	}
	if len(inUse) != 1 || inUse[0] != sealer.KeyID() {
		return fmt.Errorf("documents may still be sealed under the old data key (in use: %s; the new one is %s): "+
			"let a server that was started with both go on until its log says that they are sealed anew",
			strings.Join(inUse, ", "), sealer.KeyID())
	}
	return nil
}

// keysInUse asks the running server which data keys seal documents, or reads the journal when no
// server runs. It fails when neither can be read.
func (c *RotateCmd) keysInUse(ctx context.Context) (keys []string, err error) {
	unlock, err := datadir.LockUsed(c.DataDir)
	if errors.Is(err, datadir.ErrInUse) {
		return adminport.Ask[[]string](ctx, c.DataDir, "data-keys", nil, maxKeysText)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	journal, err := c.ReadJournal(ctx, "a rotation")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	return actors.DataKeysInUse(ctx, journal)
}

// requireOwn refuses a new secret that the file of another holder has too. The data key has no
// other holder.
func (c *RotateCmd) requireOwn(first string) error {
	if c.Secret == settings.DataKeyFile {
		return nil
	}
	var held []settings.HeldSecret
	for _, file := range settings.HeldSecretFiles() {
		text, err := settings.ReadSecret(filepath.Join(c.DataDir, file))
		switch {
		case file == c.Secret:
			text = first
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		held = append(held, settings.HeldSecret{File: file, Values: datadir.SplitSecrets(text)})
	}
	var f settings.Faults
	f.RefuseShared(held)
	return errors.Join(f...)
}

// requireStarted returns an error while no server has started with the new secret. A holder with
// the new secret would be refused until the next start, and a holder with the old one after it.
func (c *RotateCmd) requireStarted(first string) error {
	ctx, cancel := context.WithTimeout(context.Background(), rotateWithin)
	defer cancel()
	inUse, err := c.secretInUse(ctx, first)
	if err == nil && !inUse {
		err = fmt.Errorf("no server has started with the new %s: restart the server, give %s the new one, "+
			"then repeat this command. The old secret stays valid until then "+
			"(%s takes the place of the file where it is set)", c.Secret, holdersOf(c.Secret), settings.SettingOf(c.Secret))
	}
	return err
}

// secretInUse asks the server that has the directory. When none has, it reads the fingerprints that
// the last start stored in the journal. It fails when neither can be read.
func (c *RotateCmd) secretInUse(ctx context.Context, first string) (inUse bool, err error) {
	unlock, err := datadir.LockUsed(c.DataDir)
	if errors.Is(err, datadir.ErrInUse) {
		answer, err := adminport.Ask[secretAnswer](
			ctx,
			c.DataDir,
			"secret",
			secretQuestion{Name: c.Secret},
			maxKeysText,
		)
		return answer.InUse, err
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	journal, err := c.ReadJournal(ctx, "a rotation")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	sealer, err := settings.OpenSealer(c.DataDir, c.DataKey)
	if err != nil {
		return false, err
	}
	used, err := actors.SecretsInUse(ctx, journal, sealer)
	return slices.Contains(used[c.Secret], settings.FingerprintOf(journal.Identity().Deployment, c.Secret, first)), err
}

// secretQuestion is the body of the admin port's command "secret". Name is a file in the data
// directory.
type secretQuestion struct {
	Name string `json:"name"`
}

// secretAnswer reports whether the server has started with the first secret in the file.
type secretAnswer struct {
	InUse bool `json:"inUse"`
}

// AnswerSecret is the admin port's command "secret". The server reads the file itself, so that the
// answer has no secret and a caller cannot test guesses. It fails with invalid_body for an unknown
// name, and for a file that cannot be read.
func AnswerSecret(c *settings.Config, body []byte) (answer secretAnswer, err error) {
	var question secretQuestion
	if err := adminport.DecodeBody(body, &question); err != nil {
		return answer, err
	}
	if !slices.Contains(settings.HeldSecretFiles(), question.Name) {
		return answer, fault.New(
			fault.InvalidBody,
			"name is not one of "+strings.Join(settings.HeldSecretFiles(), ", "),
		)
	}
	text, err := settings.ReadSecret(filepath.Join(c.DataDir, question.Name))
	if err != nil {
		return answer, err
	}
	for _, held := range c.HeldSecrets() {
		answer.InUse = answer.InUse ||
			held.File == question.Name && slices.Contains(held.Values, datadir.SplitSecrets(text)[0])
	}
	return answer, nil
}

// newPartnerSecret begins the rotation of a partner's own secret that it does not have yet: the
// common secret, under which it signs so far, stays valid beside the new one. It fails when the
// common secret is in a setting, is missing, or is rotating itself.
func (c *RotateCmd) newPartnerSecret() (secrets []string, err error) {
	common := filepath.Join(c.DataDir, settings.PartnerSecretFile)
	text, err := settings.ReadSecret(common)
	setting := settings.PartnerSecretSetting(settings.PartnerOfSecret(c.Secret))
	if c.PartnerSecret != "" || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not have the common secret: to give the partner a secret of its own set %s "+
			"to NEW,OLD, OLD being PURSER_PARTNER_SECRET, and to NEW alone afterwards (`openssl rand -hex %d` makes one)",
			common, setting, settings.DataKeyBytes)
	}
	if err != nil {
		return nil, err
	}
	if secrets = strings.Split(text, ","); len(secrets) > 1 {
		return nil, fmt.Errorf(
			"%s is rotating: end that first with `purser rotate %s --finish`",
			settings.PartnerSecretFile,
			settings.PartnerSecretFile,
		)
	}
	return secrets, nil
}
