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

// byteWiseAppender appends its text byte by byte and then returns err.
type byteWiseAppender struct {
	text string
	err  error
}

func (l byteWiseAppender) AppendJSON(dst []byte) ([]byte, error) {
	for i := range len(l.text) {
		dst = append(dst, l.text[i])
	}
	return dst, l.err
}

// The result of Encode is its caller's: later and concurrent calls, and calls that fail, do not
// change it.
func TestEncodedEventsShareNoMemory(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var written [][]byte
			letter := string(rune('a' + i))
			for length := range 200 {
				text, err := decision.Encode(byteWiseAppender{text: strings.Repeat(letter, length)})
				require.NoError(t, err)
				written = append(written, text)
				none, err := decision.Encode(byteWiseAppender{text: "unfinished", err: errors.New("no name")})
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
		text, err := decision.Encode(byteWiseAppender{text: string(long)})
		require.NoError(t, err)
		require.Equal(t, long, []byte(text))
	}
}
