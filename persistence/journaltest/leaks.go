package journaltest

import (
	"time"

	"go.uber.org/goleak"
)

// leakTimeout is how long goroutines may take to end. An abandoned connection is closed in the
// background, and a loaded machine may delay any goroutine.
const leakTimeout = time.Minute

// Leaked returns an error that names the goroutines that do not end by themselves, besides the excepted.
func Leaked(except ...goleak.Option) error {
	for deadline := time.Now().Add(leakTimeout); ; {
		if err := goleak.Find(except...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
