package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Errors of a server that lacks a resource which a statement needs. ErrFullDisk is an ErrExhausted.
var (
	ErrExhausted = errors.New("the server of Postgres has run out of a resource")
	ErrFullDisk  = fmt.Errorf("the disk of Postgres is full: free space there (%w)", ErrExhausted)
)

// SQLSTATEs of class 53, insufficient resources.
const (
	classResources     = "53"
	diskFull           = "53100"
	outOfMemory        = "53200"
	tooManyConnections = "53300"
)

// NameExhausted names the resource that the server lacks: it wraps an error of class 53 in
// ErrFullDisk or ErrExhausted. It returns any other error, and nil, unchanged. The journal and the
// book pass the server's errors through it.
func NameExhausted(err error) error {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.HasPrefix(refusal.Code, classResources) || errors.Is(err, ErrExhausted) {
		return err
	}
	switch refusal.Code {
	case diskFull:
		return fmt.Errorf("%w: %w", ErrFullDisk, err)
	case outOfMemory:
		return fmt.Errorf("%w, its memory: %w", ErrExhausted, err)
	case tooManyConnections:
		return fmt.Errorf("%w, its connections (max_connections): %w", ErrExhausted, err)
	}
	return fmt.Errorf("%w: %w", ErrExhausted, err)
}
