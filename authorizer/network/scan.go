package network

import (
	"crypto/sha256"
	"time"
	"unicode/utf8"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// field is a set of the fields that a body of the card network may have.
type field uint16

const (
	fieldID field = 1 << iota
	fieldCardToken
	fieldAmount
	fieldCurrency
	fieldMerchant
	fieldKind
	fieldAuthorization
	fieldOriginal
	fieldPartial
	fieldExpires
	fieldFinal
	fieldMerchantID
	fieldMerchantName
	fieldMCC
	fieldCountry
)

const (
	merchantFields = fieldMerchantID | fieldMerchantName | fieldMCC | fieldCountry
	merchantNeeded = fieldMerchantName | fieldMCC
	cardFields     = fieldID | fieldCardToken | fieldAmount | fieldCurrency | fieldMerchant
)

// form is what the body of a route looks like.
type form struct {
	kind            hold.Kind
	allowed, needed field
}

func formOf(kind hold.Kind) form {
	switch kind {
	case hold.Authorization:
		return form{kind, cardFields | fieldKind | fieldAuthorization | fieldOriginal | fieldPartial | fieldExpires, cardFields}
	case hold.Reversal:
		return form{kind, fieldID | fieldAuthorization | fieldOriginal | fieldAmount, fieldID}
	case hold.Clearing:
		return form{kind, cardFields | fieldAuthorization | fieldOriginal | fieldFinal, cardFields}
	case hold.Refund:
		return form{kind, cardFields | fieldAuthorization | fieldOriginal, cardFields}
	}
	panic("BUG: no form for a body of kind " + kind.String())
}

// Refusals of a body. Each names the field.
const (
	badBody          = "the body is not one JSON object"
	badUTF8          = "the body is not valid UTF-8"
	badUnknown       = "the body has an unknown field"
	badDuplicate     = "the body has a field twice"
	badID            = "id: a string of 1 to 64 characters"
	badCardToken     = "cardToken: a string"
	badAmount        = "amountCents: an integer of cents from 1 to 1000000000000, or 0 in an authorization that is not incremental"
	badCurrency      = "currency: a string of three letters"
	badMerchant      = "merchant: an object"
	badMerchantID    = "merchant.id: a string of at most 80 characters"
	badMerchantName  = "merchant.name: a string of 1 to 200 characters"
	badMCC           = "merchant.mcc: a string of four digits"
	badCountry       = "merchant.country: a string of two letters"
	badKind          = "kind: authorization or incremental"
	badAuthorization = "authorizationId: a string, the id of an authorization"
	badOriginal      = "originalId: a string of 1 to 64 characters"
	badReference     = "authorizationId or originalId: exactly one of them"
	badBothNamed     = "authorizationId or originalId: not both"
	badNoReference   = "authorizationId, originalId: only with kind incremental"
	badPartial       = "partialApproval: true or false"
	badExpires       = "holdExpiresAt: a time in RFC 3339, in the future and at most 31 days away"
	badFinal         = "final: true or false"
)

// body is a message being read. Its first refusal of a well-formed value is `invalid`; `broken` is a fault of form.
type body struct {
	lexer
	form
	m       *hold.Message
	now     int64
	seen    field
	broken  string
	invalid string
	refs    field // references given, well-formed or not
}

// Scan reads the body of a message of the card network into m, which it overwrites. kind is the route's: Authorization (which
// may turn out Incremental), Reversal, Clearing or Refund. now is in Unix milliseconds.
//
// It returns "" or why the body is refused. A field of an authorization (other than its id) with a value of another type, or one
// that cannot be, is no refusal: it is m.Invalid. Scan allocates nothing for a good body; the strings of m alias text, which is
// spent (unescaped in place).
func Scan(kind hold.Kind, text []byte, now int64, m *hold.Message) (refusal string) {
	*m = hold.Message{Kind: kind}
	if !utf8.Valid(text) {
		return badUTF8
	}
	b := body{lexer: lexer{text: text}, form: formOf(kind), m: m, now: now}
	b.object()
	if b.broken == "" && !b.end() {
		b.broken = badBody
	}
	if b.broken == "" && !usableID(m.ID) {
		b.broken = badID
	}
	if b.broken != "" {
		return b.broken
	}
	b.complete()
	m.Fingerprint = m.Sum()
	if b.invalid == "" || kind == hold.Authorization {
		m.Invalid = b.invalid
		return ""
	}
	return b.invalid
}

func usableID(id string) bool { return id != "" && utf8.RuneCountInString(id) <= hold.MaxNetworkID }

// breaks ends the reading with a fault of form.
func (b *body) breaks(why string) {
	if b.broken == "" {
		b.broken = why
	}
	b.fail()
}

// refuse notes a value that cannot be; the first one is told.
func (b *body) refuse(why string) {
	if b.invalid == "" {
		b.invalid = why
	}
}

func (b *body) object() {
	for first := true; b.more(first); first = false {
		f := fieldOf(b.string())
		if b.expect(':'); b.bad {
			b.breaks(badBody)
			return
		}
		b.member(f, b.allowed)
		if b.bad {
			return
		}
	}
	if b.bad {
		b.breaks(badBody)
	}
}

func fieldOf(name string) field {
	switch name {
	case "id":
		return fieldID
	case "cardToken":
		return fieldCardToken
	case "amountCents":
		return fieldAmount
	case "currency":
		return fieldCurrency
	case "merchant":
		return fieldMerchant
	case "kind":
		return fieldKind
	case "authorizationId":
		return fieldAuthorization
	case "originalId":
		return fieldOriginal
	case "partialApproval":
		return fieldPartial
	case "holdExpiresAt":
		return fieldExpires
	case "final":
		return fieldFinal
	}
	return 0
}

// member reads the value of a field that is allowed once. A value of another type is refused in an authorization, where it makes
// a decline, and breaks the form of everything else, and of an id.
func (b *body) member(f, allowed field) {
	switch {
	case f&allowed == 0:
		b.breaks(badUnknown)
		return
	case b.seen&f != 0:
		b.breaks(badDuplicate)
		return
	}
	b.seen |= f
	if b.literal("null") {
		if f&(b.needed|merchantNeeded) != 0 {
			b.breaks(complaint(f))
		}
		return
	}
	if b.kind == hold.Authorization && f != fieldID && b.mistyped(f) {
		b.refuse(complaint(f))
		b.skip(maxSkipped)
	} else {
		b.value(f)
	}
	if b.bad {
		b.breaks(complaint(f))
	}
}

// mistyped tells whether what comes next is no beginning of a value of the field's type.
func (b *body) mistyped(f field) bool {
	c := b.peek()
	switch f {
	case fieldAmount:
		return !b.wholeNumber()
	case fieldPartial:
		return c != 't' && c != 'f'
	case fieldMerchant:
		return c != '{'
	}
	return c != '"'
}

func (b *body) value(f field) {
	switch f {
	case fieldID:
		b.m.ID = b.string()
	case fieldCardToken:
		b.cardToken(b.string())
	case fieldAmount:
		b.amount(b.integer())
	case fieldCurrency:
		b.currency(b.string())
	case fieldMerchant:
		b.merchant()
	case fieldKind:
		b.kindOf(b.string())
	case fieldAuthorization:
		b.authorization(b.string())
	case fieldOriginal:
		b.original(b.string())
	case fieldPartial:
		b.m.PartialApproval = b.boolean()
	case fieldExpires:
		b.expires(b.string())
	case fieldFinal:
		b.m.Final = b.boolean()
	default:
		b.merchantValue(f)
	}
}

// complaint is what is said of a field that is missing, null or of another type.
func complaint(f field) string {
	switch f {
	case fieldID:
		return badID
	case fieldCardToken:
		return badCardToken
	case fieldAmount:
		return badAmount
	case fieldCurrency:
		return badCurrency
	case fieldMerchant:
		return badMerchant
	case fieldKind:
		return badKind
	case fieldAuthorization:
		return badAuthorization
	case fieldOriginal:
		return badOriginal
	case fieldPartial:
		return badPartial
	case fieldExpires:
		return badExpires
	case fieldFinal:
		return badFinal
	case fieldMerchantID:
		return badMerchantID
	case fieldMerchantName:
		return badMerchantName
	case fieldMCC:
		return badMCC
	case fieldCountry:
		return badCountry
	}
	return badBody
}

// cardToken keeps a string that is no token of ours as a token of slot 0, where no card is: an unknown card, and the same one
// every time.
func (b *body) cardToken(s string) {
	token, err := ident.ParseToken(unsafeBytes(s))
	if err != nil {
		sum := sha256.Sum256(unsafeBytes(s))
		token = ident.Token{}
		copy(token[2:], sum[:])
	}
	b.m.Token = token
}

// amount keeps no amount out of range: nothing after here needs to fear it.
func (b *body) amount(cents int64) {
	if cents < 0 || cents > money.MaxAmount || cents == 0 && b.kind != hold.Authorization {
		b.refuse(badAmount)
		return
	}
	b.m.Amount = cents
}

func (b *body) currency(s string) {
	if !letters(s, len(b.m.Currency)) {
		b.refuse(badCurrency)
		return
	}
	copy(b.m.Currency[:], s)
}

func letters(s string, n int) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return len(s) == n
}

func (b *body) kindOf(s string) {
	switch s {
	case "authorization":
	case "incremental":
		b.m.Kind = hold.Incremental
	default:
		b.refuse(badKind)
	}
}

func (b *body) authorization(s string) {
	b.refs |= fieldAuthorization
	id, err := ident.Parse(ident.Authorization, s)
	if err != nil {
		b.refuse(badAuthorization)
	}
	b.m.AuthorizationID = id
}

func (b *body) original(s string) {
	b.refs |= fieldOriginal
	if !usableID(s) {
		b.refuse(badOriginal)
		return
	}
	b.m.OriginalID = s
}

func (b *body) expires(s string) {
	var at time.Time
	if err := at.UnmarshalText(unsafeBytes(s)); err != nil {
		b.refuse(badExpires)
		return
	}
	ms := at.UnixMilli()
	if ms <= b.now || ms > b.now+hold.MaxHoldLife.Milliseconds() {
		b.refuse(badExpires)
		return
	}
	b.m.HoldExpiresAt = ms
}

func (b *body) merchant() {
	if b.peek() != '{' {
		b.fail()
		return
	}
	for first := true; b.more(first); first = false {
		f := merchantField(b.string())
		if b.expect(':'); b.bad {
			b.breaks(badBody)
			return
		}
		if b.member(f, merchantFields); b.bad {
			return
		}
	}
}

func merchantField(name string) field {
	switch name {
	case "id":
		return fieldMerchantID
	case "name":
		return fieldMerchantName
	case "mcc":
		return fieldMCC
	case "country":
		return fieldCountry
	}
	return 0
}

func (b *body) merchantValue(f field) {
	s := b.string()
	to := &b.m.Merchant
	switch f {
	case fieldMerchantID:
		b.bounded(s, 0, hold.MaxMerchantID, &to.ID, badMerchantID)
	case fieldMerchantName:
		b.bounded(s, 1, hold.MaxMerchantName, &to.Name, badMerchantName)
	case fieldMCC:
		mcc, ok := hold.ParseMCC(s)
		if !ok {
			b.refuse(badMCC)
		}
		to.MCC = mcc
	case fieldCountry:
		if !letters(s, 2) {
			b.refuse(badCountry)
			return
		}
		to.Country = s
	}
}

func (b *body) bounded(s string, least, most int, to *string, why string) {
	if n := utf8.RuneCountInString(s); n < least || n > most {
		b.refuse(why)
		return
	}
	*to = s
}

// complete checks what no field says alone: those that are missing, and the references among them.
func (b *body) complete() {
	for f := fieldID; f <= fieldMerchant; f <<= 1 {
		if b.needed&^b.seen&f != 0 {
			b.refuse(complaint(f))
		}
	}
	if b.seen&fieldMerchant != 0 {
		for f := fieldMerchantName; f <= fieldMCC; f <<= 1 {
			if b.seen&f == 0 {
				b.refuse(complaint(f))
			}
		}
	}
	b.m.WholeHold = b.kind == hold.Reversal && b.m.Amount == 0
	one := b.refs == fieldAuthorization || b.refs == fieldOriginal
	switch m := b.m; {
	case m.Kind == hold.Authorization && b.refs != 0:
		b.refuse(badNoReference)
	case (m.Kind == hold.Incremental || m.Kind == hold.Reversal) && !one:
		b.refuse(badReference)
	case b.refs != 0 && !one:
		b.refuse(badBothNamed)
	}
	if b.m.Kind == hold.Incremental && b.m.Amount == 0 {
		b.refuse(badAmount)
	}
}
