// Package dataformat compares the number of a format in which data is stored with the number that
// this program reads.
package dataformat

import "fmt"

// Other is the error of data in another format than the one that this program reads.
type Other struct {
	What         string // the name of the number, such as "its format"
	Found, Reads int64
	Older        string // the repair of data of an older format, such as "start with an empty directory"
}

// Require returns an *Other when found is not the number that this program reads, or else nil. what
// and older are the fields of the error.
func Require(what string, found, reads int64, older string) error {
	if found == reads {
		return nil
	}
	return &Other{What: what, Found: found, Reads: reads, Older: older}
}

// IsNewer reports whether a newer program has stored the data.
func (o *Other) IsNewer() bool { return o.Found > o.Reads }

// Error returns both numbers and what to do. It never says to remove data of a newer program.
func (o *Other) Error() string {
	repair := o.Older
	if o.IsNewer() {
		repair = "run the newer program, or restore a backup made by this one"
	}
	return fmt.Sprintf("%s is %d, this program reads %d: %s", o.What, o.Found, o.Reads, repair)
}
