package bankserver_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/persistence/money"
)

func TestTheClientReturnsALargeNACHAFile(t *testing.T) {
	bank, url := serveBank(t)
	c, ctx := newClient(t, url, secret), t.Context()
	token, err := c.Tokenize(ctx, ada)
	require.NoError(t, err)
	const many = 700 // the file is larger than the limit of other answers
	for n := range many {
		require.NoError(t, bank.Pay(ctx, payment(n, token, money.Minor(1_000+n%80))), fmt.Sprint(n))
	}
	day := time.Date(2025, 11, 20, 0, 0, 0, 0, time.UTC)
	var here, there bytes.Buffer
	_, err = bank.WriteACH(ctx, day, &here)
	require.NoError(t, err)
	payments, err := c.WriteACH(ctx, day, &there)
	require.NoError(t, err)
	require.Equal(t, many, payments)
	require.Equal(t, here.String(), there.String())
	_, err = c.WriteACH(ctx, day.AddDate(0, 0, 1), &there)
	require.ErrorIs(t, err, partner.ErrNothingSent)
	_, err = newClient(t, url, "another secret").WriteACH(ctx, day, new(bytes.Buffer))
	require.ErrorContains(t, err, "401")
}
