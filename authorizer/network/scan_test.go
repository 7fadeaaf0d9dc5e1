package network_test

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/authorizer/network"
	"purser/persistence/ident"
	"purser/persistence/money"
)

var (
	scanNow   = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	scanToken = ident.Token{0, 77, 17: 9}
	scanAuth  = ident.Derive(77, scanNow, "auth")
)

const goodMerchant = `{"id":"acq-77","name":"Corner Shop","mcc":"0742","country":"DE"}`

func goodAuthorization() string {
	return `{"id":"net-1","cardToken":"` + scanToken.String() + `","amountCents":1250,"currency":"USD","merchant":` +
		goodMerchant + `,"partialApproval":true,"holdExpiresAt":"2026-11-25T10:00:00Z"}`
}

func goodBody(kind hold.Kind) string {
	reference := `"authorizationId":"` + scanAuth.Format(ident.Authorization) + `"`
	card := `"id":"net-2","cardToken":"` + scanToken.String() + `","amountCents":1250,"currency":"USD","merchant":` +
		goodMerchant + `,`
	switch kind {
	case hold.Incremental:
		return `{` + card + `"kind":"incremental",` + reference + `}`
	case hold.Reversal:
		return `{"id":"net-2",` + reference + `,"amountCents":5}`
	case hold.Clearing:
		return `{` + card + `"final":true,` + reference + `}`
	case hold.Refund:
		return `{` + card + reference + `}`
	}
	return goodAuthorization()
}

func routeOf(kind hold.Kind) hold.Kind {
	if kind == hold.Incremental {
		return hold.Authorization
	}
	return kind
}

var messageKinds = []hold.Kind{hold.Authorization, hold.Incremental, hold.Reversal, hold.Clearing, hold.Refund}

func scan(kind hold.Kind, text string) (hold.Message, string) {
	var m hold.Message
	why := network.Scan(kind, []byte(text), scanNow.UnixMilli(), &m)
	return m, why
}

func TestScanReadsEveryField(t *testing.T) {
	m, why := scan(hold.Authorization, goodAuthorization())
	require.Empty(t, why)
	want := hold.Message{
		Kind: hold.Authorization, ID: "net-1", Token: scanToken, Amount: 1250, Currency: [3]byte([]byte("USD")),
		Merchant:        hold.Merchant{ID: "acq-77", Name: "Corner Shop", MCC: 742, Country: "DE"},
		PartialApproval: true, HoldExpiresAt: scanNow.AddDate(0, 0, 5).UnixMilli(),
	}
	want.Fingerprint = want.Sum()
	require.Equal(t, want, m)
	for _, kind := range messageKinds {
		m, why := scan(routeOf(kind), goodBody(kind))
		require.Empty(t, why, kind)
		require.Empty(t, m.Invalid, kind)
		require.Equal(t, kind, m.Kind)
		require.Equal(t, kind == hold.Clearing, m.Final)
		if kind != hold.Authorization {
			require.Equal(t, scanAuth, m.AuthorizationID, kind)
		}
	}
	m, why = scan(hold.Reversal, ` { "originalId" : "\u00e9\"\ud83d\ude00\/" , "id":"\n" } `)
	require.Empty(t, why)
	require.Equal(t, "é\"😀/", m.OriginalID)
	require.True(t, m.WholeHold)
}

// A text that is no JSON object, or has no usable id, is refused on every route.
func TestScanRefusesWhatIsNoMessage(t *testing.T) {
	for name, c := range map[string]struct{ from, to, why string }{
		"not json":            {`{`, `hello{`, "JSON"},
		"in an array":         {`{`, `[{`, "JSON"},
		"trailing comma":      {`"id":"net`, `,"id":"net`, "JSON"},
		"no colon":            {`"id":`, `"id"`, "JSON"},
		"unquoted":            {`"id":`, `id:`, "JSON"},
		"invalid utf-8":       {`"id":"net`, "\"colour\":\"\xff\",\"id\":\"net", "UTF-8"},
		"no id":               {`"id":`, `"name":`, "id:"},
		"empty id":            {`"id":"net`, `"id":"","name":"net`, "id:"},
		"long id":             {`"id":"net`, `"id":"` + strings.Repeat("é", 65), "id:"},
		"null id":             {`"id":"net`, `"id":null,"name":"net`, "id:"},
		"id a number":         {`"id":"net`, `"id":1,"name":"net`, "id:"},
		"id twice":            {`"id":"net`, `"id":"net-1","id":"net`, "id:"},
		"id with a nul":       {`"id":"net`, `"id":"\u0000net`, "id:"},
		"id with half a pair": {`"id":"net`, `"id":"\ud800net`, "id:"},
		"open object":         {`"id":"net`, `"colour":{"a":1,"id":"net`, "JSON"},
		"no value":            {`"id":"net`, `"colour":nil,"id":"net`, "JSON"},
		"open array":          {`"id":"net`, `"colour":[1,],"id":"net`, "JSON"},
		"crossed brackets":    {`"id":"net`, `"colour":[{]},"id":"net`, "JSON"},
		"no number":           {`"id":"net`, `"colour":12.,"id":"net`, "JSON"},
		"no exponent":         {`"id":"net`, `"colour":1e+,"id":"net`, "JSON"},
		"leading zero":        {`"id":"net`, `"colour":01,"id":"net`, "JSON"},
		"plus":                {`"id":"net`, `"colour":+1,"id":"net`, "JSON"},
		"bad escape":          {`"id":"net`, `"colour":"\x","id":"net`, "JSON"},
		"control character":   {`"id":"net`, "\"colour\":\"\t\",\"id\":\"net", "JSON"},
		"zero before amount":  {`"amountCents":`, `"amountCents":0`, "amountCents"},
		"amount with plus":    {`"amountCents":`, `"amountCents":+`, "amountCents"},
		"amount of a minus":   {`"amountCents":`, `"amountCents":-,"colour":`, "amountCents"},
	} {
		for _, kind := range messageKinds {
			body := strings.Replace(goodBody(kind), c.from, c.to, 1)
			require.NotEqual(t, goodBody(kind), body, name)
			_, why := scan(routeOf(kind), body)
			require.Contains(t, why, c.why, "%s %s", kind, name)
		}
	}
	for _, text := range []string{``, `[]`, `null`, goodAuthorization() + ` {}`, goodAuthorization() + "\x00",
		strings.TrimSuffix(goodAuthorization(), `}`)} {
		_, why := scan(hold.Authorization, text)
		require.Equal(t, "the body is not one JSON object", why, text)
	}
}

// A message with an id whose members are not those of its route is a decline of an authorization,
// and refused on every other route. Both name the member. The message is no repeat of one without
// the fault.
func TestScanNamesAMemberThatIsNotOfTheForm(t *testing.T) {
	long := strings.Repeat("é", 41)
	for name, c := range map[string]struct{ from, to, why string }{
		"unknown":           {`"id":`, `"colour":"red","id":`, "unknown field: colour"},
		"unknown and long":  {`"id":`, `"` + long + `":1,"id":`, "unknown field: " + long[:80] + "…"},
		"unknown of 40":     {`"id":`, `"` + long[:80] + `":1,"id":`, "unknown field: " + long[:80]},
		"unknown twice":     {`"id":`, `"a":1,"a":2,"id":`, "unknown field: a"},
		"unknown null":      {`"id":`, `"colour":null,"id":`, "unknown field: colour"},
		"with large values": {`"id":`, `"a":[18446744073709551616,-1e9999,{"":{},"x":[]}],"id":`, "unknown field: a"},
		"with a name twice": {`"id":`, `"a":{"b":1,"\u0062":2},"id":`, "unknown field: a"},
		"deep":              {`"id":`, `"a":` + strings.Repeat(`[{"":`, 4000) + `0` + strings.Repeat("}]", 4000) + `,"id":`, "unknown field: a"},
		"in another case":   {`"id":`, `"Id":1,"id":`, "unknown field: Id"},
		"nested":            {`"country"`, `"city"`, "unknown field: merchant.city"},
		"of no route":       {`"id":`, `"name":"x","id":`, "unknown field: name"},
		"twice":             {`"amountCents":`, `"amountCents":1250,"amountCents":`, "twice: amountCents"},
		"twice, escaped":    {`"amountCents":`, `"amountCents":1250,"amountC\u0065nts":`, "twice: amountCents"},
		"twice, nested":     {`"mcc":"0742"`, `"mcc":"0742","mcc":"0742"`, "twice: merchant.mcc"},
		"nul":               {`Corner`, `C\u0000rner`, "merchant.name"},
		"half a pair":       {`Corner`, `C\ud800rner`, "merchant.name"},
		"half, then whole":  {`Corner`, `C\ud800\u0041rner`, "merchant.name"},
		"low first":         {`Corner`, `C\udc00\ud800rner`, "merchant.name"},
		"nul in a token":    {`"cardToken":"`, `"cardToken":"\u0000`, "cardToken"},
	} {
		for _, kind := range messageKinds {
			good := goodBody(kind)
			body := strings.Replace(good, c.from, c.to, 1)
			if body == good {
				require.Equal(t, hold.Reversal, kind, name)
				continue
			}
			m, why := scan(routeOf(kind), body)
			if routeOf(kind) == hold.Authorization {
				require.Empty(t, why, "%s %s", kind, name)
				why = m.Invalid
			}
			require.Contains(t, why, c.why, "%s %s", kind, name)
			same, _ := scan(routeOf(kind), good)
			require.NotEqual(t, same.Fingerprint, m.Fingerprint, "%s %s", kind, name)
			again, _ := scan(routeOf(kind), " "+body)
			require.Equal(t, again.Fingerprint, m.Fingerprint, "%s %s", kind, name)
		}
	}
	m, why := scan(hold.Authorization, strings.Replace(goodAuthorization(), `"partialApproval"`, `"final"`, 1))
	require.Empty(t, why)
	require.Contains(t, m.Invalid, "unknown field: final")
}

// A field of another type declines an authorization and refuses every other message. Both name the
// field.
func TestScanSkipsAValueOfAnotherType(t *testing.T) {
	token := `"` + scanToken.String() + `"`
	for name, c := range map[string]struct{ from, to, why string }{
		"token a number":    {token, `4111`, "cardToken"},
		"amount a string":   {`1250`, `"1250"`, "amountCents"},
		"amount a fraction": {`1250`, `12.5`, "amountCents"},
		"amount whole dot":  {`1250`, `1250.0`, "amountCents"},
		"amount exponent":   {`1250`, `1E+3`, "amountCents"},
		"amount tiny":       {`1250`, `-0.5e-9`, "amountCents"},
		"amount a boolean":  {`1250`, `true`, "amountCents"},
		"amount an object":  {`1250`, `{"value":[1250,{}],"of":null,"x":"\ud83d\ude00"}`, "amountCents"},
		"amount an array":   {`1250`, `[[],[1.5,-2,false]]`, "amountCents"},
		"amount with nul":   {`1250`, `["\u0000"]`, "amountCents"},
		"final a string":    {`"final":true`, `"final":"true"`, "final"},
		"currency a number": {`"USD"`, `840`, "currency"},
		"merchant a string": {goodMerchant, `"x"`, "merchant:"},
		"merchant an array": {goodMerchant, `[]`, "merchant:"},
		"name a boolean":    {`"Corner Shop"`, `false`, "merchant.name"},
		"mcc a number":      {`"0742"`, `742`, "merchant.mcc"},
		"country a number":  {`"DE"`, `49`, "merchant.country"},
		"merchant id":       {`"acq-77"`, `77`, "merchant.id"},
		"boolean a string":  {`"partialApproval":true`, `"partialApproval":"true"`, "partialApproval"},
		"time a number":     {`"2026-11-25T10:00:00Z"`, `1795000000`, "holdExpiresAt"},
		"kind a number":     {`"incremental"`, `1`, "kind"},
		"reference":         {`"` + scanAuth.Format(ident.Authorization) + `"`, `5`, "authorizationId"},
	} {
		seen := false
		for _, kind := range messageKinds {
			good := goodBody(kind)
			body := strings.Replace(good, c.from, c.to, 1)
			if body == good {
				continue
			}
			m, why := scan(routeOf(kind), body)
			if routeOf(kind) == hold.Authorization {
				require.Empty(t, why, "%s %s", kind, name)
				why = m.Invalid
			}
			seen = true
			require.Contains(t, why, c.why, "%s %s", kind, name)
		}
		require.True(t, seen, name)
	}
}

// A bad value declines an authorization and refuses every other message. Both name the field.
func TestScanNamesTheFieldOfAnImpossibleValue(t *testing.T) {
	for name, c := range map[string]struct{ from, to, why string }{
		"no token":      {`"cardToken":"` + scanToken.String() + `",`, ``, "cardToken"},
		"no amount":     {`"amountCents":1250,`, ``, "amountCents"},
		"negative":      {`1250`, `-1250`, "amountCents: an integer of cents from 1 to 1000000000000, or 0"},
		"too much":      {`1250`, `1000000000001`, "amountCents"},
		"int64":         {`1250`, `9223372036854775807`, "amountCents"},
		"over int64":    {`1250`, `9223372036854775808`, "amountCents"},
		"over uint64":   {`1250`, `18446744073709552866`, "amountCents"}, // 1250 in 64 bits
		"under int64":   {`1250`, `-9223372036854775809`, "amountCents"},
		"amount null":   {`1250`, `null`, "amountCents"},
		"token null":    {`"` + scanToken.String() + `"`, `null`, "cardToken"},
		"currency null": {`"USD"`, `null`, "currency"},
		"merchant null": {goodMerchant, `null`, "merchant:"},
		"name null":     {`"Corner Shop"`, `null`, "merchant.name"},
		"no currency":   {`"currency":"USD",`, ``, "currency"},
		"long currency": {`"USD"`, `"USDC"`, "currency"},
		"currency":      {`"USD"`, `"U5D"`, "currency"},
		"no merchant":   {`,"merchant":` + goodMerchant, ``, "merchant:"},
		"no name":       {`"name":"Corner Shop",`, ``, "merchant.name"},
		"empty name":    {`"Corner Shop"`, `""`, "merchant.name"},
		"long name":     {`"Corner Shop"`, `"` + strings.Repeat("x", 201) + `"`, "merchant.name"},
		"long id":       {`"acq-77"`, `"` + strings.Repeat("x", 81) + `"`, "merchant.id"},
		"no mcc":        {`"mcc":"0742",`, ``, "merchant.mcc"},
		"short mcc":     {`"0742"`, `"742"`, "merchant.mcc"},
		"mcc letters":   {`"0742"`, `"07a2"`, "merchant.mcc"},
		"country":       {`"DE"`, `"D3"`, "merchant.country"},
	} {
		for _, kind := range messageKinds {
			good := goodBody(kind)
			body := strings.Replace(good, c.from, c.to, 1)
			if body == good {
				require.Equal(t, hold.Reversal, kind, name)
				continue
			}
			m, why := scan(routeOf(kind), body)
			if routeOf(kind) == hold.Authorization {
				require.Empty(t, why, name)
				why = m.Invalid
			}
			require.Contains(t, why, c.why, "%s %s", kind, name)
		}
	}
}

func TestScanChecksTheReferences(t *testing.T) {
	original := `"originalId":"net-1"`
	id := `"authorizationId":"` + scanAuth.Format(ident.Authorization) + `"`
	for _, c := range []struct {
		kind     hold.Kind
		from, to string
		ok       bool
	}{
		{hold.Authorization, `{`, `{` + original + `,`, false},
		{hold.Authorization, `{`, `{"kind":"authorization",`, true},
		{hold.Authorization, `{`, `{"kind":null,"authorizationId":null,"originalId":null,`, true},
		{hold.Authorization, `{`, `{"kind":"refund",`, false},
		{hold.Incremental, id, original, true},
		{hold.Incremental, id, original + `,` + id, false},
		{hold.Incremental, `,` + id, ``, false},
		{hold.Incremental, id, `"authorizationId":"card_1"`, false},
		{hold.Incremental, id, `"originalId":""`, false},
		{hold.Incremental, `1250`, `0`, false},
		{hold.Authorization, `1250`, `0`, true},
		{hold.Authorization, `1250`, `1000000000000`, true},
		{hold.Reversal, id, original, true},
		{hold.Reversal, id + `,`, ``, false},
		{hold.Reversal, id, original + `,` + id, false},
		{hold.Reversal, `,"amountCents":5`, ``, true},
		{hold.Reversal, `5}`, `0}`, false},
		{hold.Clearing, `,` + id, ``, true},
		{hold.Clearing, id, original, true},
		{hold.Clearing, id, original + `,` + id, false},
		{hold.Clearing, `1250`, `0`, false},
		{hold.Refund, `,` + id, ``, true},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-11-20T10:00:00Z`, false},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-12-21T10:00:00Z`, true},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-12-21T10:00:00.001Z`, false},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-11-25T12:00:00+02:00`, true},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `tomorrow`, false},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-11-25T10:00:00+23:59`, true},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-11-25T10:00:00+24:00`, false},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-11-25T10:00:00+23:60`, false},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-11-25T9:00:00Z`, false},
		{hold.Authorization, `2026-11-25T10:00:00Z`, `2026-11-25T10:00:00,5Z`, false},
		{hold.Authorization, `"DE"`, `null`, true},
		{hold.Authorization, `"USD"`, `"usd"`, true},
	} {
		body := strings.Replace(goodBody(c.kind), c.from, c.to, 1)
		require.NotEqual(t, goodBody(c.kind), body)
		m, why := scan(routeOf(c.kind), body)
		require.Equal(t, c.ok, why == "" && m.Invalid == "", "%s: %q %q", body, why, m.Invalid)
	}
}

// A repeat whose currency and country are in other letters is the same message.
func TestScanCapitalizesCurrencyAndCountry(t *testing.T) {
	for _, kind := range messageKinds {
		if kind == hold.Reversal {
			continue
		}
		want, why := scan(routeOf(kind), goodBody(kind))
		require.Empty(t, why)
		for _, letters := range []string{`"usd" "de"`, `"Usd" "dE"`, `"\u0075sd" "\u0064e"`} {
			currency, country, _ := strings.Cut(letters, " ")
			got, why := scan(routeOf(kind), strings.NewReplacer(`"USD"`, currency, `"DE"`, country).Replace(goodBody(kind)))
			require.Empty(t, why+got.Invalid)
			require.Equal(t, want, got, letters)
		}
	}
}

// A malformed card token is an unknown card, not a bad request. Equal tokens are the same card.
func TestScanKeepsAForeignToken(t *testing.T) {
	foreign := func(token string) hold.Message {
		m, why := scan(hold.Authorization, strings.Replace(goodAuthorization(), scanToken.String(), token, 1))
		require.Empty(t, why+m.Invalid)
		return m
	}
	require.Equal(t, ident.SystemSlot, foreign("4111").Token.Slot())
	require.Equal(t, foreign("4111").Fingerprint, foreign("4111").Fingerprint)
	require.NotEqual(t, foreign("4111").Fingerprint, foreign("4112").Fingerprint)
}

func TestScanDoesNotAllocate(t *testing.T) {
	for _, kind := range messageKinds {
		text := []byte(goodBody(kind))
		m := new(hold.Message)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			if why := network.Scan(routeOf(kind), text, scanNow.UnixMilli(), m); why != "" {
				t.Fatal(why)
			}
		}), kind)
	}
}

func BenchmarkScan(b *testing.B) {
	text := []byte(goodAuthorization())
	m := new(hold.Message)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		network.Scan(hold.Authorization, text, scanNow.UnixMilli(), m)
	}
}

// FuzzScan compares the scanner with a slow reference on a strict JSON library.
func FuzzScan(f *testing.F) {
	for _, kind := range messageKinds {
		f.Add(byte(kind), []byte(goodBody(kind)))
	}
	f.Add(byte(hold.Authorization), []byte(`{"id":"\ud83d\ude00","amountCents":-0,"merchant":{}}`))
	f.Add(byte(hold.Authorization),
		[]byte(`{"id":"x","amountCents":{"a":[1.5e3,null]},"merchant":[true],"kind":5,"currency":"\u0000"}`))
	f.Add(byte(hold.Authorization),
		[]byte(`{"id":"x","a":{"b":1,"b":18446744073709551616},"merchant":{"name":null,"name":"\ud800\u0041"},"currency":null}`))
	f.Fuzz(func(t *testing.T, k byte, text []byte) {
		kind := routeOf(messageKinds[int(k)%len(messageKinds)])
		want, accepted := reference(kind, bytes.Clone(text))
		var got hold.Message
		why := network.Scan(kind, text, scanNow.UnixMilli(), &got)
		require.Equal(t, accepted, why == "", "%q", why)
		if !accepted {
			return
		}
		require.Equal(t, want.Invalid != "", got.Invalid != "", got.Invalid)
		if got.Invalid == "" {
			got.Fingerprint = [16]byte{}
			require.Equal(t, want, got)
		}
	})
}

var allowedFields = map[hold.Kind]string{
	hold.Authorization: "id cardToken amountCents currency merchant kind authorizationId originalId partialApproval holdExpiresAt",
	hold.Reversal:      "id amountCents authorizationId originalId",
	hold.Clearing:      "id cardToken amountCents currency merchant authorizationId originalId final",
	hold.Refund:        "id cardToken amountCents currency merchant authorizationId originalId",
}

// slow is a body in the reference: all members first, then one by one.
type slow struct {
	members map[string]jsontext.Value
	needed  []string
	broken  bool
	invalid bool
}

// slowly reads the members of an object, the first of each name.
func slowly(text []byte, allowed string, needed ...string) *slow {
	s := &slow{needed: needed, members: map[string]jsontext.Value{}}
	dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return &slow{broken: true}
	}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		name := token.String()
		if err != nil {
			return &slow{broken: true}
		}
		value, err := dec.ReadValue()
		if err != nil {
			return &slow{broken: true}
		}
		_, twice := s.members[name]
		s.invalid = s.invalid || twice || !contains(strings.Fields(allowed), name)
		s.broken = s.broken || twice && name == "id" && contains(needed, "id")
		if !twice {
			s.members[name] = value.Clone()
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return &slow{broken: true}
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return &slow{broken: true}
	}
	for name, value := range s.members {
		if string(value) == "null" {
			delete(s.members, name)
		}
	}
	for _, name := range needed {
		s.invalid = s.invalid || s.members[name] == nil
	}
	return s
}

func contains(list []string, s string) bool {
	for _, item := range list {
		if item == s {
			return true
		}
	}
	return false
}

// read decodes a member strictly and checks its value. ok reports a valid one.
func read[T any](s *slow, name string, good func(T) bool) (v T, ok bool) {
	value, given := s.members[name]
	if !given {
		return v, false
	}
	if err := json.Unmarshal(value, &v); err != nil {
		s.invalid = true
		return v, false
	}
	if text, isText := any(v).(string); isText && strings.Contains(text, "\x00") || !good(v) {
		s.invalid = true
		var zero T
		return zero, false
	}
	return v, true
}

func matches(pattern string) func(string) bool {
	return regexp.MustCompile(`(?s)\A(?:` + pattern + `)\z`).MatchString
}

func anything[T any](T) bool { return true }

func reference(kind hold.Kind, text []byte) (m hold.Message, accepted bool) {
	if !utf8.Valid(text) {
		return m, false
	}
	needed := []string{"id", "cardToken", "amountCents", "currency", "merchant"}
	if kind == hold.Reversal {
		needed = needed[:1]
	}
	s := slowly(text, allowedFields[kind], needed...)
	if s.broken {
		return m, false
	}
	m.Kind = kind
	m.ID, _ = read(s, "id", anything[string])
	if named, ok := read(s, "kind", matches("authorization|incremental")); ok && named == "incremental" {
		m.Kind = hold.Incremental
	}
	least := int64(1)
	if m.Kind == hold.Authorization {
		least = 0
	}
	amount, _ := read(s, "amountCents", func(n int64) bool { return n >= least && n <= int64(money.MaxAmount) })
	m.Amount = money.Cents(amount)
	m.WholeHold = kind == hold.Reversal && m.Amount == 0
	if token, ok := read(s, "cardToken", anything[string]); ok {
		m.Token, _ = ident.ParseToken([]byte(token))
		if m.Token == (ident.Token{}) {
			own, _ := scan(hold.Authorization, `{"id":"x","cardToken":`+string(s.members["cardToken"])+`}`)
			m.Token = own.Token // the token is the scanner's own choice
		}
	}
	currency, _ := read(s, "currency", matches("[A-Za-z]{3}"))
	copy(m.Currency[:], strings.ToUpper(currency))
	m.PartialApproval, _ = read(s, "partialApproval", anything[bool])
	m.Final, _ = read(s, "final", anything[bool])
	s.references(&m)
	s.expiry(&m)
	s.merchant(&m)
	if s.broken || m.ID == "" || utf8.RuneCountInString(m.ID) > 64 || s.invalid && kind != hold.Authorization {
		return m, false
	}
	if s.invalid {
		m.Invalid = "something"
	}
	return m, true
}

func (s *slow) references(m *hold.Message) {
	given := 0
	for _, name := range []string{"authorizationId", "originalId"} {
		if s.members[name] != nil {
			given++
		}
	}
	m.OriginalID, _ = read(s, "originalId", matches(".{1,64}"))
	id, ok := read(s, "authorizationId", func(id string) bool {
		_, err := ident.Parse(ident.Authorization, id)
		return err == nil
	})
	if ok {
		m.AuthorizationID, _ = ident.Parse(ident.Authorization, id)
	}
	switch m.Kind {
	case hold.Authorization:
		s.invalid = s.invalid || given != 0
	case hold.Incremental, hold.Reversal:
		s.invalid = s.invalid || given != 1
	default:
		s.invalid = s.invalid || given > 1
	}
}

// strictTime is what the grammar of RFC 3339 says and package time does not check.
var strictTime = regexp.MustCompile(`T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func (s *slow) expiry(m *hold.Message) {
	var at time.Time
	_, ok := read(s, "holdExpiresAt", func(text string) bool {
		return at.UnmarshalText([]byte(text)) == nil && strictTime.MatchString(text) && at.UnixMilli() > scanNow.UnixMilli() &&
			at.UnixMilli() <= scanNow.Add(hold.MaxHoldLife).UnixMilli()
	})
	if ok {
		m.HoldExpiresAt = at.UnixMilli()
	}
}

func (s *slow) merchant(m *hold.Message) {
	value, given := s.members["merchant"]
	if !given {
		return
	}
	if value[0] != '{' {
		s.invalid = true
		return
	}
	inner := slowly(value, "id name mcc country", "name", "mcc")
	m.Merchant.ID, _ = read(inner, "id", matches(".{0,80}"))
	m.Merchant.Name, _ = read(inner, "name", matches(".{1,200}"))
	mcc, _ := read(inner, "mcc", matches("[0-9]{4}"))
	m.Merchant.MCC, _ = hold.ParseMCC(mcc)
	country, _ := read(inner, "country", matches("[A-Za-z]{2}"))
	m.Merchant.Country = strings.ToUpper(country)
	s.broken, s.invalid = s.broken || inner.broken, s.invalid || inner.invalid
}
