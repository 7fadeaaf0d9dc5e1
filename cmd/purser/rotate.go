package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"purser/actors"
)

// RotateCmd changes a secret that the data directory keeps. A server reads it at its next start. A
// rotation has two steps: the first makes a new secret and keeps the old one valid, --finish drops
// the old one.
type RotateCmd struct {
	Place
	Secret string `arg:"" enum:"data-key,network-secret,partner-secret,partner-secret-bank,partner-secret-ramp,partner-secret-stablecoin,checkout-seed" help:"data-key, network-secret, partner-secret, that of one partner (partner-secret-bank, -ramp or -stablecoin), or checkout-seed."`
	Finish bool   `name:"finish" xor:"step" help:"Drop the old secret. That of personal data only when nothing is sealed under it any more."`
	Lost   bool   `name:"lost" xor:"step" help:"Make the secret although stores have used another one, which is lost."`
}

const (
	rotateWithin = time.Minute
	maxKeysText  = 64 << 10 // bytes of a server's answer
)

// Run rotates and says what to do next.
func (c *RotateCmd) Run(out io.Writer) error {
	path := filepath.Join(c.DataDir, c.Secret)
	text, err := readSecret(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.Lost:
		return c.replaceLost(path, out)
	case errors.Is(err, fs.ErrNotExist) && !c.Finish && partnerOfSecret(c.Secret) != "":
		secrets, err := c.newPartnerSecret()
		if err != nil {
			return err
		}
		return c.addSecret(path, secrets[0], out)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there: %s is what the server uses; to rotate it set NEW,OLD there, and NEW alone afterwards "+
			"(`openssl rand -hex %d` makes one)", path, settingOf(c.Secret), dataKeyBytes)
	case err != nil:
		return err
	case c.Lost:
		return fmt.Errorf("%s is there: it is not lost", path)
	case c.Secret == checkoutSeedFile:
		return errors.New("checkout-seed does not rotate: addresses that were handed out derive from it")
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

// addSecret puts a new secret before the one that is in use.
func (c *RotateCmd) addSecret(path, inUse string, out io.Writer) error {
	fresh, err := newSecret()
	if err != nil {
		return err
	}
	if err := writeDurably(path, fresh+","+inUse+"\n"); err != nil {
		return err
	}
	next := nextSteps[c.Secret]
	if partner := partnerOfSecret(c.Secret); partner != "" {
		next = "give the " + partner + " partner the new one (the first in the file)"
	}
	_, err = fmt.Fprintf(out, "%s has a new secret, and the old one stays valid: restart the server, %s, "+
		"then `purser rotate %s --finish`\n", path, next, c.Secret)
	return err
}

// nextSteps names the work between the two steps of a rotation.
var nextSteps = map[string]string{
	dataKeyFile:       "wait until its log says that every personal document is sealed anew",
	networkSecretFile: "give the card network the new one (the first in the file)",
	partnerSecretFile: "give the partners without a secret of their own the new one (the first in the file)",
}

func (c *RotateCmd) replaceLost(path string, out io.Writer) error {
	if c.Secret == dataKeyFile {
		return errors.New("a lost data key cannot be replaced: put it back, for nothing else opens what is sealed under it")
	}
	if _, err := makeSecret(path); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s has a new secret; whatever knew the old one has to be given it\n", path)
	return err
}

// dropOld keeps the first secret alone.
func (c *RotateCmd) dropOld(path string, secrets []string, out io.Writer) error {
	if len(secrets) == 1 {
		return fmt.Errorf("%s has one secret: nothing is left to drop", path)
	}
	if c.Secret == dataKeyFile {
		if err := c.requireSealedAnew(secrets[0]); err != nil {
			return err
		}
	}
	if err := writeDurably(path, strings.TrimSpace(secrets[0])+"\n"); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s has the new secret alone, from the next start on\n", path)
	if err == nil && c.Secret == dataKeyFile {
		_, err = fmt.Fprintln(out, "keep the old one as long as you keep a backup from before")
	}
	return err
}

// requireSealedAnew refuses as long as documents may be sealed under another data key than the
// first.
func (c *RotateCmd) requireSealedAnew(first string) error {
	sealer, err := c.openSealer(first)
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

// keysInUse asks the server that has the directory, or reads the journal when none has.
func (c *RotateCmd) keysInUse(ctx context.Context) (keys []string, err error) {
	unlock, err := lockUsed(c.DataDir)
	if errors.Is(err, errInUse) {
		return askAdmin[[]string](ctx, c.DataDir, "data-keys", nil, maxKeysText)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	journal, err := c.readJournal(ctx, "a rotation")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	return actors.DataKeysInUse(ctx, journal)
}
