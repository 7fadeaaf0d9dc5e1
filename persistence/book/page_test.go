package book

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/money"
)

// FuzzRead: for every payload, the postings read from an event belong to its transfers and sum to
// zero. An account near the largest balance is booked in range or not at all.
func FuzzRead(f *testing.F) {
	for _, payload := range []string{
		``, `{}`, `null`, `{"postings":null}`, `{"postings":[{}]}`, `[1]`,
		`{"postings":[{"transfer":"tg_1","account":"usd","cents":5}]}`,
		`{"postings":[{"transfer":"tg_1","account":"usd","cents":5},{"transfer":"tg_1","account":"bank","cents":-5}]}`,
		`{"postings":[{"transfer":"tg_1","account":"a","cents":1,"currency":"EUR"},` +
			`{"transfer":"tg_1","account":"a","cents":-1,"currency":"EUR"}]}`,
		`{"postings":[{"transfer":"t","account":"a","cents":9223372036854775807},{"transfer":"t","account":"b","cents":1}]}`,
		`{"postings":[{"transfer":"t","account":"a","cents":-9223372036854775808},{"transfer":"t","account":"b","cents":-1}]}`,
	} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := readPage(1, []persistence.Event{{ID: "evt_1", Kind: "balance", Position: 7, Payload: json.RawMessage(payload)}})
		if err != nil {
			require.ErrorIs(t, err, ErrUnsound)
			return
		}
		type part struct {
			ordinal  int
			currency string
		}
		sums, begun := map[part]money.Minor{}, map[int]bool{}
		for _, tr := range p.transfers {
			begun[tr.ordinal] = true
		}
		for leg, q := range p.postings {
			require.Equal(t, leg, q.leg)
			require.True(t, begun[q.ordinal])
			sums[part{q.ordinal, q.account.currency}] += q.amount
		}
		for _, sum := range sums {
			require.Zero(t, sum)
		}
		for i, a := range p.accounts {
			a.id, a.balance = int64(i+1), math.MaxInt64
		}
		if err := p.numberPostings(); err != nil {
			require.ErrorIs(t, err, ErrUnsound)
		}
	})
}

// Only a payload with one member "postings", null or empty, skips the decoder.
func TestDeclaredEmptyPostingsSkipTheDecoder(t *testing.T) {
	for document, want := range map[string]bool{
		`{"entries":[{"merchant":{"name":"x"}}],"postings":null,"seq":3}`: true,
		`{"postings":[]}`: true,
		`{"postings":[],"entries":[{"name":"\"postings\":[{"}]}`:              true,
		`{"postings":[{"transfer":"t"}]}`:                                     false,
		`{"entries":[{"name":"\"postings\":null"}],"postings":[{"cents":1}]}`: false,
		`{"entries":[{"postings":null}],"postings":[{"transfer":"t"}]}`:       false,
		`{"postings":[{"transfer":"t"}],"entries":[{"postings":null}]}`:       false,
		`{"name":"postings\":null"}`:                                          false,
		`{"postings": null}`:                                                  false,
		`{"postings":[]`:                                                      false,
		`{"postings":nullify}`:                                                false,
		`{}`:                                                                  false,
		``:                                                                    false,
	} {
		require.Equal(t, want, declaresNoPostings([]byte(document)), document)
	}
}
