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
	addressID := user.AddressID(79, hash)
	change := user.EmailChange{Number: 2, Address: addressID, EmailHash: hash,
		Until: decision.StampOf(start.Add(time.Minute))}
	decisiontest.RequireGoldens(t, user.DecodeEvent,
		user.Registered{ID: userID, EmailHash: hash, At: stamp},
		user.SessionStarted{User: userID, Session: hash, ExpiresAt: decision.StampOf(start.Add(time.Hour)), At: stamp},
		user.SessionEnded{User: userID, Session: hash, Cause: "logout", At: stamp},
		user.PasswordChanged{User: userID, At: stamp},
		user.Joined{User: userID, Workspace: workspaceID, Name: "Acme", Role: "owner", At: stamp},
		user.Left{User: userID, Workspace: workspaceID, At: stamp},
		user.ResetIssued{User: userID, Reset: hash, ExpiresAt: decision.StampOf(start.Add(time.Hour)), At: stamp},
		user.SessionUsed{User: userID, Session: hash, At: stamp},
		user.FactorBegun{User: userID, At: stamp},
		user.FactorEnabled{User: userID, Serial: 1, Step: 58788000, Recovery: []string{hash}, At: stamp},
		user.FactorUsed{User: userID, Step: 58788001, At: stamp},
		user.FactorDisabled{User: userID, At: stamp},
		user.EmailLinkIssued{User: userID, Link: hash, ExpiresAt: decision.StampOf(start.Add(time.Hour)), At: stamp},
		user.EmailLinkEnded{User: userID, Link: hash, Cause: "used", At: stamp},
		user.EmailChangeBegun{User: userID, Change: change, At: stamp},
		user.EmailChanged{User: userID, Number: 2, New: user.HeldEmail{Address: addressID, EmailHash: hash, Generation: 1},
			Old: user.HeldEmail{Address: addressID, EmailHash: hash}, At: stamp},
		user.EmailChangeEnded{User: userID, Change: change, Cause: "expired", At: stamp},
		user.EmailClaimed{EmailHash: hash, User: userID, Change: 2, Generation: 1, At: stamp},
		user.EmailReleased{EmailHash: hash, Generation: 2, At: stamp},
		user.ResetEnded{User: userID, Reset: hash, Cause: "used", At: stamp},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, user.DecodeEvent) }
