package actors_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/card"
	"purser/actors/fault"
)

func TestReplyOfAnotherTypeIsAnInternalError(t *testing.T) {
	view, err := actors.ReplyAs[card.View](card.View{ID: "card_1"}, nil)
	require.NoError(t, err)
	require.Equal(t, "card_1", view.ID)

	_, err = actors.ReplyAs[card.View](card.State{}, nil)
	require.EqualError(t, err, "an actor answered card.State instead of card.View")
	_, err = actors.ReplyAs[card.View](nil, nil)
	require.EqualError(t, err, "an actor answered <nil> instead of card.View")

	_, err = actors.ReplyAs[card.View](nil, fault.New(fault.NotFound, ""))
	require.True(t, fault.Is(err, fault.NotFound), "a refusal stays what it is")
}
