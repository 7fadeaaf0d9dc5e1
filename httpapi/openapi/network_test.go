package openapi

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/authorizer/network"
	"purser/persistence/ident"
)

// networkSchemas returns the schemas of the valid description of the card network's port.
func networkSchemas(t *testing.T) openapi3.Schemas {
	t.Helper()
	text, err := NetworkJSON()
	require.NoError(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(context.Background(), openapi3.EnableExamplesValidation()))
	return doc.Components.Schemas
}

// bodies holds a message of each kind with every field of its schema.
var bodies = map[hold.Kind]struct{ schema, text string }{
	hold.Authorization: {"AuthorizationMessage", `{"id":"a","cardToken":"c","amountCents":1,"currency":"USD","merchant":{"id":"m","name":"n",` +
		`"mcc":"5411","country":"US"},"kind":"incremental","originalId":"o","partialApproval":true,"holdExpiresAt":"2026-11-21T00:00:00Z"}`},
	hold.Reversal: {"ReversalMessage", `{"id":"a","originalId":"o","amountCents":1}`},
	hold.Clearing: {"ClearingMessage", `{"id":"a","cardToken":"c","amountCents":1,"currency":"USD","merchant":{"name":"n","mcc":"5411"},` +
		`"originalId":"o","final":true}`},
	hold.Refund: {"RefundMessage", `{"id":"a","cardToken":"c","amountCents":1,"currency":"USD","merchant":{"name":"n","mcc":"5411"},"originalId":"o"}`},
}

// The port refuses a field that the schema lacks, and misses a field that the schema requires.
func TestMessagesOfTheCardNetworkAreDescribed(t *testing.T) {
	schemas := networkSchemas(t)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli()
	scan := func(kind hold.Kind, fields map[string]any) string {
		text, err := json.Marshal(fields)
		require.NoError(t, err)
		var m hold.Message
		if refusal := network.Scan(kind, text, now, &m); refusal != "" {
			return refusal
		}
		return m.Invalid
	}
	every := map[string]any{}
	for _, body := range bodies {
		require.NoError(t, json.Unmarshal([]byte(body.text), &every)) // adds to the existing members
	}
	for kind, body := range bodies {
		schema := schemas[body.schema].Value
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(body.text), &fields))
		require.NoError(t, schema.VisitJSON(fields), body.schema)
		require.Empty(t, scan(kind, fields), body.schema)
		described := slices.DeleteFunc(slices.Sorted(maps.Keys(schema.Properties)),
			func(name string) bool { return name == "authorizationId" })
		require.Equal(t, slices.Sorted(maps.Keys(fields)), described, body.schema)
		for name, value := range every {
			more := maps.Clone(fields)
			if _, known := more[name]; !known {
				more[name] = value
				require.Contains(t, scan(kind, more), "unknown field", "%s.%s", body.schema, name)
			}
		}
		for _, name := range schema.Required {
			fewer := maps.Clone(fields)
			delete(fewer, name)
			require.True(t, strings.HasPrefix(scan(kind, fewer), name+": "), "%s.%s", body.schema, name)
		}
	}
}

func TestAnswersToTheCardNetworkAreDescribed(t *testing.T) {
	schemas := networkSchemas(t)
	id := ident.Derive(7, time.UnixMilli(1), "auth")
	for _, c := range []struct {
		kind   hold.Kind
		schema string
		answer hold.Answer
	}{
		{hold.Authorization, "Decision", hold.Answer{Status: 200, Authorization: id, Decision: hold.Approved,
			Approved: 1}},
		{hold.Incremental, "Decision", hold.Answer{Status: 200, Decision: hold.Declined,
			Reason: hold.ReasonInvalidRequest, Message: "x"}},
		{hold.Reversal, "ReversalAnswer", hold.Answer{Status: 200, Authorization: id, Decision: hold.Applied, Held: 7}},
		{hold.Reversal, "ReversalAnswer", hold.Answer{Status: 200, Decision: hold.Applied}},
		{hold.Clearing, "PostingAnswer", hold.Answer{Status: 200, Decision: hold.Posted}},
		{hold.Refund, "PostingAnswer", hold.Answer{Status: 200, Decision: hold.Unmatched}},
		{hold.Refund, "Error", hold.Answer{Status: hold.StatusConflict}},
		{hold.Clearing, "Error", hold.Answer{Status: hold.StatusFull}},
	} {
		text := network.AppendAnswer(nil, &hold.Message{Kind: c.kind, ID: "a", Amount: 1}, &c.answer)
		var value any
		require.NoError(t, json.Unmarshal(text, &value))
		require.NoError(t, schemas[c.schema].Value.VisitJSON(value), "%s: %s", c.schema, text)
	}
	reasons := schemas["Reason"].Value.Enum
	for reason := hold.ReasonApproved; ; reason++ {
		name, err := reason.MarshalText()
		if err != nil {
			require.Greater(t, reason, hold.ReasonForcedPost)
			return
		}
		if reason != hold.ReasonForcedPost { // answers no message
			require.Contains(t, reasons, any(string(name)))
		}
	}
}
