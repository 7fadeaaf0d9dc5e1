package ident_test

import (
	"crypto/rand"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence/ident"
)

// Every prefix of the block "Prefixes of secrets and tokens" is in the table of the redaction.
func TestEverySecretHasItsPrefixInTheTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "ident.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var declared []string
	for _, d := range file.Decls {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Doc.Text() != "Prefixes of secrets and tokens.\n" {
			continue
		}
		for _, spec := range block.Specs {
			text, err := strconv.Unquote(spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			declared = append(declared, text)
		}
	}
	require.NotEmpty(t, declared)
	require.ElementsMatch(t, declared, ident.SecretPrefixes())
}

func TestSecretsAreRedactedWhereverTheyStand(t *testing.T) {
	for _, prefix := range ident.SecretPrefixes() {
		secret, err := ident.NewSecret(prefix, 7, rand.Reader)
		require.NoError(t, err)
		for _, text := range []string{"", "/dashboard/reset?token=", "x", "a_"} {
			require.Equal(t, text+prefix+"_[redacted]", ident.RedactSecrets(text+secret))
			require.Equal(t, text+prefix+"_[redacted], "+prefix+"_[redacted].",
				ident.RedactSecrets(text+secret+", "+secret+"."))
		}
		require.True(t, ident.HasSecretPrefix(secret))
		require.True(t, ident.HasSecretPrefix("again."+secret))
	}
	for _, text := range []string{"", "reset_issued", "apk_0123456…", "card_01kagj5fkve16r6sydcvyx2dnv", "ses_"} {
		require.Equal(t, text, ident.RedactSecrets(text))
	}
	for _, text := range []string{"", "responses_17", "preset_7", "order-7", "ses"} {
		require.False(t, ident.HasSecretPrefix(text), text)
	}
	require.True(t, ident.HasSecretPrefix("responses_17.ses_1"))
}
