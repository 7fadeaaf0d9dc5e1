package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moov-io/ach"

	"purser/actors/bankday"
	"purser/actors/partner"
)

// Limits of a NACHA file.
const (
	maxACHCents   = 99_999_999_99 // per entry: the format has ten digits
	maxACHEntries = 50_000
	maxACHName    = 22
	maxACHID      = 15
	maxACHAddenda = 80
)

// Identity of the sandbox bank in the file. Its routing number is a test number with a valid check
// digit.
const (
	railACH       = "ach"
	achOperator   = "061000146" // FedACH
	achBank       = "110000000"
	achCompanyID  = "1110000000"
	achCompany    = "PURSER"
	achDescribed  = "PAYOUT"
	achWindow     = "SD1800" // settlement of the last same-day window, in New York
	achFileTime   = "2000"   // bankday.CutOffACH
	achNoName     = "RECIPIENT"
	achOriginator = 1 // a depository institution
)

// sendingDay is the bank day on which an ACH payment is sent to the operator, as midnight UTC.
func (p *payment) sendingDay(calendar *bankday.Calendar) time.Time {
	cutOff := bankday.CutOffACH
	if p.SameDay {
		cutOff = bankday.CutOffSameDayACH
	}
	return calendar.SendingDay(p.Taken, cutOff)
}

// WriteACH writes the ACH payments of a bank day. Each effective entry date is one batch (CCD,
// credits): next-day and same-day payments. A payment ordered twice has two entries. The addendum
// has our reference and the description. It fails with partner.ErrNothingSent for a day without
// payments, for more than maxACHEntries of them, for a payment that does not fit the format, and
// with the errors of ctx, the store and w.
func (b *Bank) WriteACH(ctx context.Context, day time.Time, w io.Writer) (payments int, err error) {
	calendar, err := bankday.New()
	if err != nil {
		return 0, err
	}
	var standard, sameDay []*ach.EntryDetail
	err = b.store.eachOrder(func(o *order) error {
		p := o.Payment
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p == nil || p.Rail != railACH || !p.sendingDay(calendar).Equal(day) {
			return nil
		}
		batch := &standard
		if p.SameDay {
			batch = &sameDay
		}
		for range p.Orders {
			if payments++; payments > maxACHEntries {
				return fmt.Errorf("sandbox bank: a NACHA file has at most %d entries", maxACHEntries)
			}
			entry, err := b.buildACHEntry(p, payments)
			if err != nil {
				return err
			}
			*batch = append(*batch, entry)
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, err
	case payments == 0:
		return 0, partner.ErrNothingSent
	}
	file, err := buildACHFile(day, calendar.BankDayAfter(day.Add(noonInNewYork), 1), standard, sameDay)
	if err != nil {
		return 0, redactedACHError("the file", err)
	}
	out := ach.NewWriter(w)
	if err := out.Write(file); err != nil {
		return 0, redactedACHError("the file", err)
	}
	return payments, out.Flush()
}

// noonInNewYork is added to midnight UTC of a date, so that the instant has the same date in New
// York.
const noonInNewYork = 17 * time.Hour

// buildACHFile builds the NACHA file of a bank day: one batch of the standard entries, effective on
// the next bank day, and one of the same-day entries. It fails when an entry does not fit the
// format.
func buildACHFile(day, next time.Time, standard, sameDay []*ach.EntryDetail) (*ach.File, error) {
	file := ach.NewFile()
	header := ach.NewFileHeader()
	header.ImmediateDestination, header.ImmediateDestinationName = achOperator, "FEDACH"
	header.ImmediateOrigin, header.ImmediateOriginName = achBank, "SANDBOX BANK"
	header.FileCreationDate, header.FileCreationTime = day.Format("060102"), achFileTime
	file.SetHeader(header)
	for _, of := range []struct {
		effective time.Time
		described string
		entries   []*ach.EntryDetail
	}{{next, "", standard}, {day, achWindow, sameDay}} {
		if len(of.entries) == 0 {
			continue
		}
		batch, err := buildACHBatch(of.effective, of.described, of.entries)
		if err != nil {
			return nil, err
		}
		file.AddBatch(batch)
	}
	return file, file.Create()
}

// buildACHBatch builds a batch (CCD, credits) of entries with one effective date. It fails when an
// entry does not fit the format.
func buildACHBatch(effective time.Time, described string, entries []*ach.EntryDetail) (ach.Batcher, error) {
	header := ach.NewBatchHeader()
	header.ServiceClassCode, header.StandardEntryClassCode = ach.CreditsOnly, ach.CCD
	header.CompanyName, header.CompanyIdentification = achCompany, achCompanyID
	header.CompanyEntryDescription, header.CompanyDescriptiveDate = achDescribed, described
	header.EffectiveEntryDate = effective.Format("060102")
	header.OriginatorStatusCode, header.ODFIIdentification = achOriginator, achBank[:8]
	batch, err := ach.NewBatch(header)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		batch.AddEntry(entry)
	}
	return batch, batch.Create()
}

// buildACHEntry builds the entry of a payment. number is unique in the file. It fails for a payment
// of an unknown account or one that does not fit the format, and with the store's error.
func (b *Bank) buildACHEntry(p *payment, number int) (*ach.EntryDetail, error) {
	account, known, err := b.store.loadAccount(p.Account)
	if err != nil {
		return nil, fmt.Errorf("sandbox bank: %w", err)
	}
	if !known {
		return nil, fmt.Errorf("sandbox bank: payment %s has an unknown account", p.Reference)
	}
	entry := ach.NewEntryDetail()
	entry.TransactionCode = ach.CheckingCredit
	if account.AccountType == "savings" {
		entry.TransactionCode = ach.SavingsCredit
	}
	entry.SetRDFI(account.RoutingNumber)
	entry.DFIAccountNumber = account.AccountNumber
	entry.Amount = int(p.AmountMinor)
	entry.IdentificationNumber = p.Reference[max(0, len(p.Reference)-maxACHID):]
	entry.SetReceivingCompany(cmp.Or(printableASCII(account.Name, maxACHName), achNoName))
	entry.SetTraceNumber(achBank[:8], number)
	addendum := ach.NewAddenda05()
	addendum.PaymentRelatedInformation = printableASCII(p.Reference+" "+p.Description, maxACHAddenda)
	entry.AddAddenda05(addendum)
	entry.AddendaRecordIndicator, entry.Category = 1, ach.CategoryForward
	if err := entry.Validate(); err != nil {
		return nil, redactedACHError("payment "+p.Reference, err)
	}
	return entry, nil
}

// printableASCII replaces other characters by "?", trims spaces, and cuts to most bytes. Every
// reader of the format accepts printable ASCII.
func printableASCII(text string, most int) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text))
	return text[:min(len(text), most)]
}

// redactedACHError names the part and the field that do not fit the format, without the value,
// which may be an account number.
func redactedACHError(what string, err error) error {
	field := "a record"
	if f, ok := errors.AsType[*ach.FieldError](err); ok {
		field = f.FieldName
	}
	if f, ok := errors.AsType[*ach.BatchError](err); ok {
		field = f.FieldName
	}
	return fmt.Errorf("sandbox bank: %s does not fit the NACHA format: %s", what, field)
}
