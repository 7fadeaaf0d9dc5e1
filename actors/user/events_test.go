package user_test

import (
	"strings"
	"testing"
	"time"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/user"
	"purser/persistence/ident"
)

var (
	start       = time.UnixMilli(1_763_640_000_123)
	userID      = ident.Derive(77, start, "user").Format(ident.User)
	workspaceID = ident.Derive(78, start, "workspace").Format(ident.Workspace)
)

func TestEventsAreReadForEver(t *testing.T) {
	stamp, hash := decision.StampOf(start), strings.Repeat("0f", 32)
	decisiontest.RequireGoldens(t, user.DecodeEvent,
		user.Registered{ID: userID, EmailHash: hash, At: stamp},
		user.SessionStarted{User: userID, Session: hash, ExpiresAt: decision.StampOf(start.Add(time.Hour)), At: stamp},
		user.SessionEnded{User: userID, Session: hash, Cause: "logout", At: stamp},
		user.PasswordChanged{User: userID, At: stamp},
		user.Joined{User: userID, Workspace: workspaceID, Name: "Acme", Role: "owner", At: stamp},
		user.Left{User: userID, Workspace: workspaceID, At: stamp},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, user.DecodeEvent) }
