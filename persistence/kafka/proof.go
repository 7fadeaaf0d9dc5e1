package kafka

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"

	"purser/persistence"
	"purser/persistence/ident"
)

// KeyBytes is the length of a key that proves messages.
const KeyBytes = sha256.Size

const (
	proofVersion = "1"
	proofPurpose = "purser kafka messages v1"
)

// Errors of a message that is not handed to a consumer.
var (
	// ErrForeign: the message is no event of this journal. Another store or another program wrote
	// it.
	ErrForeign = errors.New("foreign message")
	// ErrForged: the message says that it is an event of this journal, and its proof does not
	// check.
	ErrForged = errors.New("forged message")
	// ErrUnproven: the message says that it is an event of this journal, and this process did not
	// write it: it has no proof, or that of an earlier process. Its shard is read from the journal.
	ErrUnproven = errors.New("unproven message")
)

// DeriveKey returns the key that proves messages, derived from a data key of the deployment.
func DeriveKey(dataKey []byte) ([]byte, error) {
	return hkdf.Key(sha256.New, dataKey, nil, proofPurpose, KeyBytes)
}

// Proof is how a process proves the messages that it publishes.
type Proof struct {
	// Keys are one or more keys of DeriveKey. The first proves; each one checks.
	Keys [][]byte
	// Run names this process. A consumer takes an event from a message of its own run only: what an
	// earlier process published may since have been lost from the journal.
	Run ident.UUID
}

// Validate fails for a proof without a key or a run, or with a key of another length.
func (p Proof) Validate() error {
	if len(p.Keys) == 0 || p.Run.IsZero() {
		return errors.New("kafka: a proof needs a key and a run")
	}
	for _, key := range p.Keys {
		if len(key) != KeyBytes {
			return fmt.Errorf("kafka: a key of %d bytes, not %d", len(key), KeyBytes)
		}
	}
	return nil
}

// prover computes and checks proofs. It is for one goroutine.
type prover struct {
	run  string
	macs []hash.Hash // a MAC for each key
	text []byte      // reused
	sum  []byte      // reused
}

func newProver(p Proof) *prover {
	pr := &prover{run: hex.EncodeToString(p.Run[:])}
	for _, key := range p.Keys {
		pr.macs = append(pr.macs, hmac.New(sha256.New, key))
	}
	return pr
}

// proveEvent returns the header of an event: version, run and HMAC-SHA256 in hexadecimal digits.
func (p *prover) proveEvent(c *codec, shard ident.Shard, e *persistence.Event) string {
	p.encodeFields(c, p.run, shard, e)
	return proofVersion + " " + p.run + " " + hex.EncodeToString(p.computeMAC(p.macs[0], e))
}

// checkEvent returns nil for a proof of this run. It fails with ErrUnproven without a proof or for
// one of another run, and with ErrForged for one that no key confirms.
func (p *prover) checkEvent(c *codec, header string, shard ident.Shard, e *persistence.Event) error {
	if header == "" {
		return fmt.Errorf("%w: it has no header %s", ErrUnproven, headerProof)
	}
	version, rest, _ := strings.Cut(header, " ")
	run, digits, _ := strings.Cut(rest, " ")
	sum, err := hex.DecodeString(digits)
	if version != proofVersion || err != nil {
		return fmt.Errorf("%w: header %s is no proof", ErrForged, headerProof)
	}
	p.encodeFields(c, run, shard, e)
	for _, mac := range p.macs {
		if !hmac.Equal(sum, p.computeMAC(mac, e)) {
			continue
		}
		if run != p.run {
			return fmt.Errorf("%w: the process %s wrote it", ErrUnproven, run)
		}
		return nil
	}
	return fmt.Errorf("%w: its proof does not check", ErrForged)
}

// encodeFields encodes every field of an event but its payload. Each text has its length
// before it.
func (p *prover) encodeFields(c *codec, run string, shard ident.Shard, e *persistence.Event) {
	p.text = p.text[:0]
	for _, text := range [...]string{run, c.source, c.store, e.ID, e.Workspace, e.Kind, e.Stream, e.Type} {
		p.text = binary.BigEndian.AppendUint32(p.text, uint32(len(text)))
		p.text = append(p.text, text...)
	}
	p.text = append(p.text, byte(shard))
	p.text = binary.BigEndian.AppendUint64(p.text, e.Position)
	p.text = binary.BigEndian.AppendUint64(p.text, e.Version)
	p.text = binary.BigEndian.AppendUint64(p.text, uint64(e.At.Unix()))
	p.text = binary.BigEndian.AppendUint32(p.text, uint32(e.At.Nanosecond()))
}

func (p *prover) computeMAC(mac hash.Hash, e *persistence.Event) []byte {
	mac.Reset()
	_, _ = mac.Write(p.text) // a hash takes everything
	_, _ = mac.Write(e.Payload)
	p.sum = mac.Sum(p.sum[:0])
	return p.sum
}
