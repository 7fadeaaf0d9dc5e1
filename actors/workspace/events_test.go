package workspace_test

import (
	"strings"
	"testing"
	"time"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

var (
	start        = time.UnixMilli(1_763_640_000_123)
	workspaceID  = ident.Derive(77, start, "workspace").Format(ident.Workspace)
	keyID        = ident.Derive(77, start, "key").Format(ident.Key)
	invitationID = ident.Derive(77, start, "invitation").Format(ident.Invitation)
	userID       = ident.Derive(78, start, "user").Format(ident.User)
)

func TestEventsAreReadForEver(t *testing.T) {
	stamp := decision.StampOf(start)
	key := workspace.Key{
		ID: keyID, Label: "ci", Scopes: []string{"*", "read:cards"}, Prefix: "apk_0123abcd",
		SecretHash: strings.Repeat("0f", 32),
		CreatedBy:  userID, CreatedAt: stamp,
	}
	decisiontest.RequireGoldens(t, workspace.DecodeEvent,
		workspace.WorkspaceCreated{
			ID: workspaceID, Name: "Acme", Plan: "growth", Mode: "sandbox", KYBStatus: "not_started",
			Issuer: workspace.Issuer{ID: "iss_1", Fixture: true}, Owners: []string{userID}, FirstKey: key, At: stamp,
		},
		workspace.KeyCreated{Workspace: workspaceID, Key: key, At: stamp},
		workspace.KeysRevoked{Workspace: workspaceID, Keys: []string{keyID}, By: keyID, At: stamp},
		workspace.KeyUsed{Workspace: workspaceID, Key: keyID, At: stamp},
		workspace.MemberAdded{Workspace: workspaceID, Name: "Acme", User: userID, Role: "admin", At: stamp},
		workspace.MemberRoleChanged{Workspace: workspaceID, Name: "Acme", User: userID, Role: "owner", By: userID,
			At: stamp},
		workspace.MemberRemoved{Workspace: workspaceID, User: userID, By: userID, At: stamp},
		workspace.KeysKept{Workspace: workspaceID, Keys: []string{keyID}, By: userID, At: stamp},
		workspace.MemberInvited{Workspace: workspaceID, Invitation: workspace.Invitation{
			ID: invitationID, EmailHash: strings.Repeat("0f", 32), TokenHash: strings.Repeat("f0", 32), Role: "admin",
			InvitedBy: userID, CreatedAt: stamp, ExpiresAt: decision.StampOf(start.Add(time.Hour)), Status: "pending",
		}, At: stamp},
		workspace.InvitationAnswered{
			Workspace: workspaceID, Invitation: invitationID, User: userID, Status: "accepted", At: stamp,
		},
		workspace.InvitationEnded{Workspace: workspaceID, Invitation: invitationID, Cause: "withdrawn", At: stamp},
		workspace.WorkspaceRenamed{Workspace: workspaceID, Name: "Acme Robotics",
			Members: []workspace.Person{{UserID: userID, Role: "owner", Since: stamp}}, By: userID, At: stamp},
		workspace.ModeChanged{Workspace: workspaceID, Mode: "live", At: stamp},
		workspace.KYBChanged{Workspace: workspaceID, Status: "pending", BankStatus: "open", At: stamp},
	)
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, workspace.DecodeEvent) }
