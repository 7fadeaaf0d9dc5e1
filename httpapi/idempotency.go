package httpapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/fault"
)

const (
	onceScope  = "http"         // of the idempotency claims
	replayLife = 24 * time.Hour // lifetime of a stored answer
	sealInfo   = "purser stored answer v1"
	uuidChars  = 36
)

// readIdempotencyKey checks the header's form on every route, and its presence where the route
// requires it. It fails with idempotency_key_required, and with invalid_idempotency_key for a value
// that is not a UUID. A route that ignores the key leaves c.key empty.
func (c *call) readIdempotencyKey() error {
	if !c.header.hasIdempotencyKey {
		if c.route.idempotency == keyRequired {
			return fault.New(fault.IdempotencyKeyRequired, "this route requires an Idempotency-Key")
		}
		return nil
	}
	id, err := uuid.Parse(c.header.idempotencyKey)
	if err != nil || len(c.header.idempotencyKey) != uuidChars {
		return fault.New(fault.InvalidIdempotencyKey, "Idempotency-Key must be a UUID")
	}
	if c.route.idempotency != keyIgnored {
		c.key = id.String()
	}
	return nil
}

// onceName returns the name of the idempotency claim: the tenant, the method and path, the key.
func (c *call) onceName() string {
	return c.who.keyScope() + "|" + c.method + " " + c.path + "|" + c.key
}

// askIdempotent sends a command and renders its reply. With an Idempotency-Key the rendered answer
// commits with the effect, and a repeat returns the stored answer. render may run twice and must
// then return the same answer. It fails with idempotency_key_mismatch for a key that was used with
// another body, with the actor's error, and with render's.
func askIdempotent[R any](e *edge, c *call, envelope actors.Envelope, render func(R) (answer, error)) (answer, error) {
	return askPrepared(e, c, envelope, func() (any, error) { return envelope.Command, nil }, render)
}

// askPrepared is askIdempotent for a command that needs reads or partners. prepare makes it, once,
// and only for a key without an answer: a repeat, concurrent ones included, reaches no partner, and
// neither changed records nor limits refuse it. It also fails with the error of prepare.
func askPrepared[R any](e *edge, c *call, to actors.Envelope, prepare func() (any, error),
	render func(R) (answer, error)) (answer, error) {
	renderReply := func(reply any) (answer, error) {
		typed, err := actors.ReplyAs[R](reply, nil)
		if err != nil {
			return answer{}, err
		}
		return render(typed)
	}
	if c.key != "" {
		to.Key = &actors.Key{Scope: onceScope, Key: c.onceName(), Fingerprint: sha256.Sum256(c.body),
			Expires: c.now.Add(replayLife), Seal: func(reply any) ([]byte, error) {
				a, err := renderReply(reply)
				if err != nil {
					return nil, err
				}
				return c.sealAnswer(a, e.actors.Entropy())
			}}
	}
	reply, err := e.prepareAndAsk(c, to, prepare)
	if err != nil {
		return answer{}, err
	}
	if stored, ok := reply.(actors.Replayed); ok {
		return c.openAnswer(stored.Answer)
	}
	return renderReply(reply)
}

// prepareAndAsk prepares a command and sends it, unless its idempotency key has an answer, which it
// then returns. It fails as Actors.Ask and prepare do.
func (e *edge) prepareAndAsk(c *call, to actors.Envelope, prepare func() (any, error)) (any, error) {
	if to.Key != nil {
		release, stored, err := e.actors.AcquireKey(c.ctx, to)
		if release == nil {
			return stored, err
		}
		defer release()
	}
	var err error
	if to.Command, err = prepare(); err != nil {
		return nil, err
	}
	return e.actors.Ask(c.ctx, to)
}

// sealAnswer encrypts an answer so that only a holder of the Idempotency-Key can read it. The
// answer may hold a secret, and the journal stores it for replayLife. The format is a nonce, then
// AES-256-GCM of two bytes of status and the body. It fails only when the entropy source fails.
func (c *call) sealAnswer(a answer, entropy io.Reader) ([]byte, error) {
	box, err := c.answerCipher()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize(), box.NonceSize()+2+len(a.body)+box.Overhead())
	if _, err := io.ReadFull(entropy, nonce); err != nil {
		return nil, fmt.Errorf("seal answer: %w", err)
	}
	plain := append(binary.BigEndian.AppendUint16(nil, uint16(a.status)), a.body...)
	return box.Seal(nonce, nonce, plain, nil), nil
}

// openAnswer decrypts a stored answer of sealAnswer and marks it as replayed. It fails for a stored
// answer that is cut short, altered, or sealed under another key.
func (c *call) openAnswer(sealed []byte) (answer, error) {
	box, err := c.answerCipher()
	if err != nil {
		return answer{}, err
	}
	if len(sealed) < box.NonceSize() {
		return answer{}, errors.New("stored answer is cut")
	}
	plain, err := box.Open(nil, sealed[:box.NonceSize()], sealed[box.NonceSize():], nil)
	if err != nil {
		return answer{}, fmt.Errorf("stored answer: %w", err)
	}
	if len(plain) < 2 {
		return answer{}, errors.New("stored answer is cut")
	}
	status := int(binary.BigEndian.Uint16(plain))
	if status < fasthttp.StatusOK || status > 599 {
		return answer{}, errors.New("stored answer has no status")
	}
	return answer{status: status, body: plain[2:], replayed: true}, nil
}

// answerCipher derives the cipher from the Idempotency-Key and the claim's name, so that one key on
// two routes makes two ciphers. It fails only when the crypto library refuses the parameters, which
// are constant.
func (c *call) answerCipher() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(c.key), []byte(c.onceName()), sealInfo, 32)
	if err != nil {
		return nil, fmt.Errorf("seal answer: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal answer: %w", err)
	}
	box, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("seal answer: %w", err)
	}
	return box, nil
}
