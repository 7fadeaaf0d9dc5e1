package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"purser/persistence/postgres"
)

func TestNameExhaustedNamesTheResource(t *testing.T) {
	for code, want := range map[string]string{"53100": "the disk of Postgres is full", "53200": "its memory",
		"53300": "its connections", "53400": "run out of a resource", "53000": "run out of a resource"} {
		err := postgres.NameExhausted(fmt.Errorf("commit: %w", &pgconn.PgError{Code: code, Message: "refused"}))
		require.ErrorIs(t, err, postgres.ErrExhausted)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "commit: ")
		require.Equal(t, code == "53100", errors.Is(err, postgres.ErrFullDisk))
		require.Equal(t, err, postgres.NameExhausted(err), "it is named once")
	}
	for _, other := range []error{nil, errors.New("reset"), &pgconn.PgError{Code: "57P01"}} {
		require.Equal(t, other, postgres.NameExhausted(other))
	}
}
