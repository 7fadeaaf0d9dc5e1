package partner

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNothingSent says that no ACH payment left on the day.
var ErrNothingSent = errors.New("the bank sent no ACH payments on that day")

// ACHFiles is what a bank may do besides: show what it has handed to the ACH operator. It alone can, for it alone has the numbers
// of the accounts that are paid.
type ACHFiles interface {
	// WriteACH writes the NACHA file of the ACH payments that left on a bank day (midnight in UTC of the day that it is in New
	// York), and returns how many they are; ErrNothingSent when there are none. After an error what was written is void. The file
	// is personal data: it is passed on to the operator who asked, and never logged or kept on the way.
	WriteACH(ctx context.Context, day time.Time, w io.Writer) (payments int, err error)
}
