package network

import (
	"crypto/sha256"
	"unicode/utf8"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/rfc3339"
)

// field is a set of fields of a body.
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

// form holds the fields that a route's body may and must have.
type form struct {
	kind            hold.Kind
	allowed, needed field
}

// formOf returns the allowed and the required fields of a body. It panics for a kind without a
// route.
func formOf(kind hold.Kind) form {
	switch kind {
	case hold.Authorization:
		return form{kind, cardFields | fieldKind | fieldAuthorization | fieldOriginal | fieldPartial | fieldExpires,
			cardFields}
	case hold.Reversal:
		return form{kind, fieldID | fieldAuthorization | fieldOriginal | fieldAmount, fieldID}
	case hold.Clearing:
		return form{kind, cardFields | fieldAuthorization | fieldOriginal | fieldFinal, cardFields}
	case hold.Refund:
		return form{kind, cardFields | fieldAuthorization | fieldOriginal, cardFields}
	}
	panic("BUG: no form for a body of kind " + kind.String())
}

// Refusals of a body; each names the field.
const (
	badBody          = "the body is not one JSON object"
	badUTF8          = "the body is not valid UTF-8"
	badUnknown       = "the body has an unknown field: " // and its name
	badDuplicate     = "the body has a field twice: "    // and its name
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

// maxShownName is how many characters of an unknown field's name a refusal shows.
const maxShownName = 40

// body is a message that is being parsed. broken is the first fault that leaves no message: a text
// that is no JSON object, or no usable id. invalid is the first fault of a message with an id.
type body struct {
	lexer
	form
	m         *hold.Message
	now       int64
	seen      field
	broken    string
	invalid   string
	ambiguous bool   // invalid, and read like another message: a field unknown, twice or impure
	refs      field  // references that the body has, valid or not
	within    string // begins the path of the members that are being read: "" or "merchant."
}

// Scan parses the body of a message into m, which it overwrites. kind is the route's: Authorization
// (which may turn into Incremental), Reversal, Clearing or Refund. now is in Unix milliseconds.
//
// It returns "" or the refusal of the body. In an authorization, a fault in a JSON object with a
// usable id is no refusal but m.Invalid, which makes a decline. Scan allocates nothing for a valid
// body. The strings of m alias text, which Scan overwrites when it unescapes in place.
func Scan(kind hold.Kind, text []byte, now int64, m *hold.Message) (refusal string) {
	*m = hold.Message{Kind: kind}
	if !utf8.Valid(text) {
		return badUTF8
	}
	b := body{lexer: lexer{text: text}, form: formOf(kind), m: m, now: now}
	b.readObject()
	if b.broken == "" && !b.atEnd() {
		b.broken = badBody
	}
	if b.broken == "" && !usableID(m.ID) {
		b.broken = badID
	}
	if b.broken != "" {
		return b.broken
	}
	b.checkRequired()
	m.Fingerprint = m.Sum()
	if b.ambiguous {
		m.Fingerprint[0] ^= 1 // no repeat of the message that lacks the fault
	}
	if b.invalid == "" || kind == hold.Authorization {
		m.Invalid = b.invalid
		return ""
	}
	return b.invalid
}

func usableID(id string) bool { return id != "" && utf8.RuneCountInString(id) <= hold.MaxNetworkID }

// breakForm records a fault that leaves no message and ends the parsing.
func (b *body) breakForm(why string) {
	if b.broken == "" {
		b.broken = why
	}
	b.markBad()
}

// refuseValue records the first bad value.
func (b *body) refuseValue(why string) {
	if b.invalid == "" {
		b.invalid = why
	}
}

// refuseMember records a member that makes the message ambiguous, and skips its value.
func (b *body) refuseMember(why, name string) {
	shown := 0
	for at := range name {
		if shown++; shown > maxShownName {
			name = name[:at] + "…"
			break
		}
	}
	b.refuseValue(why + b.within + name)
	b.ambiguous = true
	b.skipValue()
}

// readObject reads the members of the body. A fault that leaves no message ends it and is in
// broken; other faults are in invalid.
func (b *body) readObject() {
	b.readMembers(fieldOf, b.allowed)
	if b.bad {
		b.breakForm(badBody)
	}
}

// readMembers reads the members of an object, whose names fieldNamed knows.
func (b *body) readMembers(fieldNamed func(string) field, allowed field) {
	for first := true; b.nextMember(first); first = false {
		name := b.readString()
		b.expect(':')
		b.readMember(name, fieldNamed(name), allowed)
	}
}

// fieldOf returns the field of a member's name, or 0 for an unknown name.
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

// readMember reads the value of an allowed field, once. Another field, a wrong type and null in a
// required field are bad values. In an id they leave no message, as does a value that is no JSON.
func (b *body) readMember(name string, f, allowed field) {
	switch {
	case b.bad:
		return
	case f&allowed == 0:
		b.refuseMember(badUnknown, name)
		return
	case f == fieldID && (b.seen&f != 0 || b.isMistyped(f)):
		b.breakForm(badID)
		return
	case b.seen&f != 0:
		b.refuseMember(badDuplicate, name)
		return
	}
	b.seen |= f
	switch {
	case b.takeLiteral("null"):
		if f&(b.needed|merchantNeeded) != 0 {
			b.refuseValue(requirementOf(f))
		}
	case b.isMistyped(f):
		b.refuseValue(requirementOf(f))
		b.skipValue()
	default:
		b.readPure(f)
	}
	if b.bad {
		b.breakForm(requirementOf(f))
	}
}

// readPure reads the value of a field. Text with U+0000 or a lone surrogate is a bad value, and in
// an id leaves no message.
func (b *body) readPure(f field) {
	b.impure = false
	b.readValue(f)
	switch {
	case b.impure && f == fieldID:
		b.breakForm(badID)
	case b.impure && f != fieldMerchant: // its fields are recorded
		b.refuseValue(requirementOf(f))
		b.ambiguous = true
	}
}

// isMistyped reports whether the next byte cannot begin a value of the field's type.
func (b *body) isMistyped(f field) bool {
	c := b.peek()
	switch f {
	case fieldAmount:
		return !b.wholeNumber()
	case fieldPartial, fieldFinal:
		return c != 't' && c != 'f'
	case fieldMerchant:
		return c != '{'
	}
	return c != '"'
}

// readValue reads the value of a field into the message. A value out of bounds is recorded in
// invalid, a fault of form sets bad.
func (b *body) readValue(f field) {
	switch f {
	case fieldID:
		b.m.ID = b.readString()
	case fieldCardToken:
		b.setCardToken(b.readString())
	case fieldAmount:
		b.setAmount(money.Cents(b.readInteger()))
	case fieldCurrency:
		b.setCurrency(b.readString())
	case fieldMerchant:
		b.within = "merchant."
		b.readMembers(merchantField, merchantFields)
		b.within = ""
	case fieldKind:
		b.setKind(b.readString())
	case fieldAuthorization:
		b.setAuthorization(b.readString())
	case fieldOriginal:
		b.setOriginal(b.readString())
	case fieldPartial:
		b.m.PartialApproval = b.readBool()
	case fieldExpires:
		b.setExpiry(b.readString())
	case fieldFinal:
		b.m.Final = b.readBool()
	default:
		b.readMerchantField(f)
	}
}

// requirementOf returns the refusal of a field that is missing, null or of another type.
func requirementOf(f field) string {
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

// setCardToken maps a malformed token to a token of slot 0, where no card is. Equal strings map to
// the same unknown card.
func (b *body) setCardToken(s string) {
	token, err := ident.ParseToken(unsafeBytes(s))
	if err != nil {
		sum := sha256.Sum256(unsafeBytes(s))
		token = ident.Token{}
		copy(token[2:], sum[:])
	}
	b.m.Token = token
}

// setAmount accepts only amounts in range, so later code need not check.
func (b *body) setAmount(cents money.Cents) {
	if cents < 0 || cents > money.MaxAmount || cents == 0 && b.kind != hold.Authorization {
		b.refuseValue(badAmount)
		return
	}
	b.m.Amount = cents
}

// setCurrency takes the letters of a currency as capitals, so that a repeat in other letters is the
// same message.
func (b *body) setCurrency(s string) {
	if !isLetters(s, len(b.m.Currency)) {
		b.refuseValue(badCurrency)
		return
	}
	copy(b.m.Currency[:], s)
	capitalize(b.m.Currency[:])
}

func isLetters(s string, n int) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return len(s) == n
}

// capitalize turns letters into capitals.
func capitalize(letters []byte) {
	for i := range letters {
		letters[i] &^= 0x20
	}
}

// setKind sets the message's kind from the member "kind". Any text but "authorization" and
// "incremental" refuses the message.
func (b *body) setKind(s string) {
	switch s {
	case "authorization":
	case "incremental":
		b.m.Kind = hold.Incremental
	default:
		b.refuseValue(badKind)
	}
}

func (b *body) setAuthorization(s string) {
	b.refs |= fieldAuthorization
	id, err := ident.Parse(ident.Authorization, s)
	if err != nil {
		b.refuseValue(badAuthorization)
	}
	b.m.AuthorizationID = id
}

func (b *body) setOriginal(s string) {
	b.refs |= fieldOriginal
	if !usableID(s) {
		b.refuseValue(badOriginal)
		return
	}
	b.m.OriginalID = s
}

// setExpiry reads an RFC 3339 time, which must be after now and at most MaxHoldLife later; anything
// else is a bad value.
func (b *body) setExpiry(s string) {
	at, err := rfc3339.Parse(unsafeBytes(s))
	ms := at.UnixMilli()
	if err != nil || ms <= b.now || ms > b.now+hold.MaxHoldLife.Milliseconds() {
		b.refuseValue(badExpires)
		return
	}
	b.m.HoldExpiresAt = ms
}

// merchantField returns the field of a member of "merchant", or 0 for an unknown name.
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

// readMerchantField reads and checks one field of the merchant. A value out of bounds is recorded
// as bad.
func (b *body) readMerchantField(f field) {
	s := b.readString()
	to := &b.m.Merchant
	switch f {
	case fieldMerchantID:
		b.setBounded(s, 0, hold.MaxMerchantID, &to.ID, badMerchantID)
	case fieldMerchantName:
		b.setBounded(s, 1, hold.MaxMerchantName, &to.Name, badMerchantName)
	case fieldMCC:
		mcc, ok := hold.ParseMCC(s)
		if !ok {
			b.refuseValue(badMCC)
		}
		to.MCC = mcc
	case fieldCountry:
		if !isLetters(s, 2) {
			b.refuseValue(badCountry)
			return
		}
		capitalize(unsafeBytes(s)) // in the body, like an escape
		to.Country = s
	}
}

func (b *body) setBounded(s string, least, most int, to *string, why string) {
	if n := utf8.RuneCountInString(s); n < least || n > most {
		b.refuseValue(why)
		return
	}
	*to = s
}

// checkRequired records the first missing field as a bad value, and then a combination of
// references that the kind does not permit.
func (b *body) checkRequired() {
	for f := fieldID; f <= fieldMerchant; f <<= 1 {
		if b.needed&^b.seen&f != 0 {
			b.refuseValue(requirementOf(f))
		}
	}
	if b.seen&fieldMerchant != 0 {
		for f := fieldMerchantName; f <= fieldMCC; f <<= 1 {
			if b.seen&f == 0 {
				b.refuseValue(requirementOf(f))
			}
		}
	}
	b.m.WholeHold = b.kind == hold.Reversal && b.m.Amount == 0
	one := b.refs == fieldAuthorization || b.refs == fieldOriginal
	switch m := b.m; {
	case m.Kind == hold.Authorization && b.refs != 0:
		b.refuseValue(badNoReference)
	case (m.Kind == hold.Incremental || m.Kind == hold.Reversal) && !one:
		b.refuseValue(badReference)
	case b.refs != 0 && !one:
		b.refuseValue(badBothNamed)
	}
	if b.m.Kind == hold.Incremental && b.m.Amount == 0 {
		b.refuseValue(badAmount)
	}
}
