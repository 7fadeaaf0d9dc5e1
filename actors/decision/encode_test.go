package decision_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/decision"
)

// letters writes itself a letter at a time, and then its error.
type letters struct {
	text string
	err  error
}

func (l letters) AppendJSON(dst []byte) ([]byte, error) {
	for i := range len(l.text) {
		dst = append(dst, l.text[i])
	}
	return dst, l.err
}

// What was encoded is its owner's: what others encode afterwards, at the same time or without success, leaves it alone.
func TestWhatIsEncodedSharesNoMemory(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var written [][]byte
			letter := string(rune('a' + i))
			for length := range 200 {
				text, err := decision.Encode(letters{text: strings.Repeat(letter, length)})
				require.NoError(t, err)
				written = append(written, text)
				none, err := decision.Encode(letters{text: "unfinished", err: errors.New("no name")})
				require.Error(t, err)
				require.Nil(t, none)
			}
			for length, text := range written {
				require.Equal(t, strings.Repeat(letter, length), string(text))
			}
		})
	}
	all.Wait()
	long := bytes.Repeat([]byte{'x'}, 3<<20)
	for range 2 {
		text, err := decision.Encode(letters{text: string(long)})
		require.NoError(t, err)
		require.Equal(t, long, []byte(text))
	}
}
