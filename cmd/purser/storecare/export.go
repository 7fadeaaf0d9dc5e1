package storecare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"purser/actors/fault"
	"purser/actors/partner"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
)

// ExportCmd groups the exports to files.
type ExportCmd struct {
	NACHA ExportNACHACmd `cmd:"" name:"nacha" help:"Ask the bank for the NACHA file of a day's ACH payouts."`
}

// ExportNACHACmd asks the bank, through the running server, for its file to the ACH operator of a
// bank day. The file has the numbers of the paid accounts. It goes from the bank to the output; no
// store and no log has it.
type ExportNACHACmd struct {
	datadir.Stores
	Day string `required:"" help:"The bank day on which the payouts left, in New York: YYYY-MM-DD."`
	Out string `help:"A file to make, readable by its owner only; without it the output."`
}

const (
	exportWithin = 2 * time.Minute
	maxNACHA     = 16 << 20 // bytes of a file as the admin port answers it
)

// nachaAsked and nachaFile are the question and the answer of the admin port. File is "" for a day
// without transfers.
type (
	nachaAsked struct {
		Day string `json:"day"`
	}
	nachaFile struct {
		Payments int    `json:"payments"`
		File     string `json:"file"`
	}
)

// Run is `purser export nacha`: it writes the NACHA file of one day's ACH payments, as the running
// server's bank has it. It fails for a bad day, with partner.ErrNothingSent for a day without
// payments, and when no server answers.
func (e *ExportNACHACmd) Run(out io.Writer) error {
	if _, err := time.Parse(time.DateOnly, e.Day); err != nil {
		return errors.New("--day is a day: YYYY-MM-DD")
	}
	ctx, cancel := context.WithTimeout(context.Background(), exportWithin)
	defer cancel()
	nacha, err := adminport.Ask[nachaFile](ctx, e.DataDir, "nacha", nachaAsked{Day: e.Day}, maxNACHA)
	if err != nil {
		return err
	}
	if nacha.Payments == 0 {
		return partner.ErrNothingSent
	}
	if e.Out == "" {
		_, err := io.WriteString(out, nacha.File)
		return err
	}
	if err := writeOwn(e.Out, nacha.File); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d payments in %s\n", nacha.Payments, e.Out)
	return err
}

// writeOwn creates a file that only its owner reads, and syncs it. It fails for a file that exists.
func writeOwn(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// AnswerNacha handles the admin port's command "nacha": it returns the ACH file of a day, empty
// when nothing was sent. It fails with invalid_body, and for a bank without NACHA files.
func AnswerNacha(ctx context.Context, bank partner.Bank, body []byte) (nachaFile, error) {
	var asked nachaAsked
	if err := adminport.DecodeBody(body, &asked); err != nil {
		return nachaFile{}, err
	}
	day, err := time.Parse(time.DateOnly, asked.Day)
	if err != nil {
		return nachaFile{}, fault.New(fault.InvalidBody, "day is not YYYY-MM-DD")
	}
	files, can := bank.(partner.ACHFiles)
	if !can {
		return nachaFile{}, errors.New("the bank shows no NACHA files")
	}
	var text strings.Builder
	payments, err := files.WriteACH(ctx, day, &text)
	if errors.Is(err, partner.ErrNothingSent) {
		return nachaFile{}, nil
	}
	if err != nil {
		return nachaFile{}, err
	}
	return nachaFile{Payments: payments, File: text.String()}, nil
}
