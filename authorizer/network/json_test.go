package network

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPlainStopsAtTheFirstSpecialByte(t *testing.T) {
	near := rapid.SampledFrom([]byte("\x00\x01\x1f !\"#[\\]\x7f\x80\x9f\xa0\xa2\xdc\xff"))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.OneOf(rapid.Just(byte('a')), near), 0, 40).Draw(t, "text")
		want := 0
		for want < len(text) && text[want] != '"' && text[want] != '\\' && text[want] >= ' ' {
			want++
		}
		require.Equal(t, want, plainLength(text), "%q", text)
	})
}
