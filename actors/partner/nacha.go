package partner

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNothingSent says that the bank sent no ACH payment on the day.
var ErrNothingSent = errors.New("the bank sent no ACH payments on that day")

// ACHFiles is an optional part of a Bank: the files it sent to the ACH operator. Only the bank can
// make them, because only it has the account numbers of the recipients.
type ACHFiles interface {
	// WriteACH writes the NACHA file of the ACH payments sent on a bank day and returns their
	// number. day is midnight UTC of the New York date. ErrNothingSent says that there are none.
	// After an error the written part is void. The file is personal data: callers must neither log
	// nor store it.
	WriteACH(ctx context.Context, day time.Time, w io.Writer) (payments int, err error)
}
