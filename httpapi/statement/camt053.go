package statement

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"time"

	"purser/persistence/money"
)

const (
	currency = "USD"
	issuer   = "Purser" // issuer of the codes in BkTxCd; a code is the source of a ledger line
)

// Codes of the message.
const (
	codeOpening = "OPBD"
	codeClosing = "CLBD"
	codeInterim = "ITBD"
	codeBooked  = "BOOK"
	codeCredit  = "CRDT"
	codeDebit   = "DBIT"
)

// maxRemittance is the longest text of an entry, in characters, by the message definition.
const maxRemittance = 140

// The parts of the message, in the order of its definition. Unused parts are left out.
type (
	document struct {
		XMLName   xml.Name `xml:"urn:iso:std:iso:20022:tech:xsd:camt.053.001.08 Document"`
		MessageID string   `xml:"BkToCstmrStmt>GrpHdr>MsgId"`
		Created   string   `xml:"BkToCstmrStmt>GrpHdr>CreDtTm"`
		Statement stmt     `xml:"BkToCstmrStmt>Stmt"`
	}
	stmt struct {
		ID       string    `xml:"Id"`
		Created  string    `xml:"CreDtTm"`
		From     string    `xml:"FrToDt>FrDtTm"`
		To       string    `xml:"FrToDt>ToDtTm"`
		Account  string    `xml:"Acct>Id>Othr>Id"`
		Currency string    `xml:"Acct>Ccy"`
		Balances []balance `xml:"Bal"`
		Summary  summary   `xml:"TxsSummry"`
		Entries  []entry   `xml:"Ntry"`
	}
	balance struct {
		Code      string `xml:"Tp>CdOrPrtry>Cd"`
		Amount    amount `xml:"Amt"`
		Direction string `xml:"CdtDbtInd"`
		At        string `xml:"Dt>DtTm"`
	}
	amount struct {
		Currency string `xml:"Ccy,attr"`
		Decimal  string `xml:",chardata"`
	}
	summary struct {
		Entries      int    `xml:"TtlNtries>NbOfNtries"`
		Net          string `xml:"TtlNtries>TtlNetNtry>Amt"`
		NetDirection string `xml:"TtlNtries>TtlNetNtry>CdtDbtInd"`
		Credits      int    `xml:"TtlCdtNtries>NbOfNtries"`
		CreditSum    string `xml:"TtlCdtNtries>Sum"`
		Debits       int    `xml:"TtlDbtNtries>NbOfNtries"`
		DebitSum     string `xml:"TtlDbtNtries>Sum"`
	}
	entry struct {
		Reference   string  `xml:"NtryRef"`
		Amount      amount  `xml:"Amt"`
		Direction   string  `xml:"CdtDbtInd"`
		Status      string  `xml:"Sts>Cd"`
		Booked      string  `xml:"BookgDt>DtTm"`
		Value       string  `xml:"ValDt>DtTm"`
		ServicerRef string  `xml:"AcctSvcrRef"`
		Code        string  `xml:"BkTxCd>Prtry>Cd"`
		Issuer      string  `xml:"BkTxCd>Prtry>Issr"`
		Details     details `xml:"NtryDtls>TxDtls"`
	}
	details struct {
		TransactionID string      `xml:"Refs>TxId,omitempty"`
		Card          *reference  `xml:"Refs>Prtry"`
		Remittance    *remittance `xml:"RmtInf"`
	}
	reference struct {
		Type string `xml:"Tp"`
		ID   string `xml:"Ref"`
	}
	remittance struct {
		Text string `xml:"Ustrd"`
	}
)

// CAMT053 writes the statement as a message camt.053.001.08, BankToCustomerStatement. An entry's
// NtryRef is its number, AcctSvcrRef its id, TxId its transfer group, and Ustrd its reference.
// BkTxCd has the ledger's source as a code of Purser's own. The closing balance of a day that is
// not over is ITBD. It fails with ErrUnbalanced for lines that do not add up, and with w's error.
func (s *Statement) CAMT053(w io.Writer) error {
	t, err := s.sumLines()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	out := xml.NewEncoder(w)
	out.Indent("", " ")
	if err := out.Encode(s.newDocument(t)); err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// newDocument returns the statement as a CAMT.053 document. An open period has an interim closing
// balance. CAMT053 encodes it.
func (s *Statement) newDocument(t totals) document {
	id := fmt.Sprintf("S%s-%s", s.From.Format("20060102"), s.To.Format("20060102"))
	closing := codeClosing
	if s.Open {
		closing = codeInterim
	}
	net := t.creditCents - t.debitCents
	d := document{
		MessageID: fmt.Sprintf("%s-%d", id, s.Made.UnixMilli()), Created: formatTime(s.Made),
		Statement: stmt{
			ID: id, Created: formatTime(s.Made), From: formatTime(s.From), To: formatTime(s.endOfPeriod()),
			Account:  s.Account,
			Currency: currency,
			Balances: []balance{balanceOf(codeOpening, s.OpeningCents, s.From),
				balanceOf(closing, s.ClosingCents, s.endOfPeriod())},
			Summary: summary{
				Entries: len(s.Lines), Net: formatMagnitude(net), NetDirection: creditDebitIndicator(net),
				Credits: t.credits, CreditSum: money.FormatDollars(t.creditCents), Debits: t.debits,
				DebitSum: money.FormatDollars(t.debitCents),
			},
			Entries: make([]entry, len(s.Lines)),
		},
	}
	for i := range s.Lines {
		d.Statement.Entries[i] = entryOf(i+1, &s.Lines[i])
	}
	return d
}

func balanceOf(code string, cents money.Cents, at time.Time) balance {
	return balance{Code: code, Amount: amount{currency, formatMagnitude(cents)}, Direction: creditDebitIndicator(cents),
		At: formatTime(at)}
}

// entryOf returns the entry of a statement line. number is its position in the statement, from 1.
func entryOf(number int, l *Line) entry {
	e := entry{
		Reference: strconv.Itoa(number), Amount: amount{currency, money.FormatDollars(l.AmountCents)},
		Direction: creditDebitIndicator(l.signedCents()), Status: codeBooked, Booked: formatTime(l.Booked),
		Value:       formatTime(l.Made),
		ServicerRef: l.ID,
		Code:        l.Source, Issuer: issuer,
		Details: details{TransactionID: l.TransferGroup},
	}
	if l.CardID != "" {
		e.Details.Card = &reference{Type: "CARD", ID: l.CardID}
	}
	if text := atMost(cleanText(l.Reference), maxRemittance); text != "" {
		e.Details.Remittance = &remittance{text}
	}
	return e
}

// formatMagnitude formats an amount without its sign, which the indicator has.
func formatMagnitude(cents money.Cents) string {
	text := money.FormatDollars(cents)
	if cents < 0 {
		return text[1:]
	}
	return text
}

func creditDebitIndicator(cents money.Cents) string {
	if cents < 0 {
		return codeDebit
	}
	return codeCredit
}
