package actors_test

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/seal"
	"purser/persistence/ident"
)

// lockedBuffer is a log that goroutines of a system write while a test reads it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (g *lockedBuffer) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

func (g *lockedBuffer) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

func (g *lockedBuffer) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.text.Reset()
}

// TestAStartNamesTheSecretThatDiffers: a start logs nothing while a secret keeps one of its values.
// It logs the name of a secret whose values are all new, once. It refuses a missing secret.
func TestAStartNamesTheSecretThatDiffers(t *testing.T) {
	var log lockedBuffer
	var secrets []actors.Secret
	keys := []byte{1}
	secret := func(name string, values ...string) actors.Secret {
		s := actors.Secret{Name: name}
		for _, value := range values {
			s.Fingerprints = append(s.Fingerprints, seal.Fingerprint("deployment", name, value))
		}
		return s
	}
	r := newCounterSystem(t, func(c *actors.Config) {
		c.Secrets, c.Sealer = secrets, sealerOf(t, keys...)
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	const warning = "none of those that the stores have used"
	restart := func(warnings []string, next ...actors.Secret) {
		t.Helper()
		log.Reset()
		secrets = next
		r.restart()
		require.Equal(t, len(warnings), strings.Count(log.String(), warning), log.String())
		for _, name := range warnings {
			require.Contains(t, log.String(), "secret="+name+"\n")
		}
	}
	bank := secret("bank", "one")
	restart(nil, secret("network", "one"), bank)
	restart(nil, secret("network", "one"), bank)
	restart(nil, secret("network", "two", "one"), bank)
	restart(nil, secret("network", "two"), bank)
	restart([]string{"network"}, secret("network", "one"), bank)
	restart(nil, secret("network", "one"), bank)
	restart([]string{"network", "bank"}, secret("network", "three"), secret("bank", "two"))
	require.NotContains(t, log.String(), "three")
	bank = secret("bank", "two")
	network := secret("network", "three")
	seed := func(values ...string) actors.Secret {
		s := secret("seed", values...)
		s.OfAddresses = true
		return s
	}
	restart(nil, network, bank, seed("one"))
	restart(nil, network, bank, seed()) // this start uses no seed
	restart([]string{"seed"}, network, bank, seed("two"))
	require.Contains(t, log.String(), "addresses of another seed")
	restart(nil) // a command without secrets compares none

	r.system.Stop()
	_, err := actors.Start(t.Context(), actors.Config{Journal: r.journal, Authorizer: r.authorizer,
		Sealer: sealerOf(t, 1), Secrets: []actors.Secret{secret("network", "three"), seed()}, Clock: r.clock.now,
		Kinds: counterKinds(), Entropy: rand.Reader})
	require.ErrorIs(t, err, actors.MissingSecret{Name: "bank"})
	require.ErrorIs(t, err, actors.ErrStores)

	// The records are sealed, and a rotation of the data key seals them anew.
	records, err := r.journal.Records(t.Context(), ident.SystemSlot.Shard(), "secret_fingerprints", "", 10)
	require.NoError(t, err)
	require.Len(t, records, 3)
	for _, record := range records {
		require.NotContains(t, string(record.Document), "fingerprints")
	}
	require.NoError(t, r.journal.Close())
	keys, secrets = []byte{2, 1}, []actors.Secret{secret("network", "three"), secret("bank", "two"), seed()}
	log.Reset()
	r.start()
	r.awaitRotated()
	keys = []byte{2}
	restart(nil, secrets...)
}
