package workspace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/workspace"
)

// scenario is one workspace whose commands are a second apart. Keys and users are identified by
// their names; a key's secret is derived from its name.
type scenario struct {
	state workspace.State
	now   time.Time
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step {
		s := &scenario{now: start}
		return func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "wait" {
				s.now = s.now.Add(decisiontest.Duration(t, d.CmdArgs[0].Key))
				return ""
			}
			return s.send(t, s.command(t, d))
		}
	})
}

func (s *scenario) command(t *testing.T, d *datadriven.TestData) any {
	text := func(key string) (value string) {
		d.MaybeScanArgs(t, key, &value)
		return value
	}
	by := workspace.Principal{KeyID: text("by-key"), UserID: text("by-user")}
	switch d.Cmd {
	case "create":
		return workspace.Create{
			ID: workspaceID, Name: text("name"), Plan: text("plan"),
			OwnerIDs: strings.Fields(strings.ReplaceAll(text("owners"), "+", " ")), IssuerID: "iss_1",
			IssuerFixture: true,
			FirstKey:      newKey("first", text("label"), nil),
		}
	case "create-key":
		return workspace.CreateKey{By: by, NewKey: newKey(text("id"), text("label"), strings.Fields(d.Input))}
	case "older-key": // created when * could still be granted
		s.state.Apply(workspace.KeyCreated{Workspace: s.state.ID, Key: workspace.Key{
			ID: text("id"), Label: "older", Scopes: []string{"*"}, Prefix: "apk_older",
			SecretHash: "secret of " + text("id"),
		}})
		return workspace.Authenticate{SecretHash: "secret of " + text("id")}
	case "revoke-key":
		return workspace.RevokeKey{ID: text("id"), By: by}
	case "authenticate":
		return workspace.Authenticate{SecretHash: "secret of " + text("key")}
	case "role":
		return workspace.LookUpRole{UserID: text("user")}
	case "use":
		return workspace.NoteUse{KeyID: text("key")}
	case "members":
		return workspace.ListMembers{By: by}
	case "invite": // the token and the email's hash are named for the invitation and its email
		return workspace.Invite{ID: text("id"),
			Email: text("email"), EmailHash: "hash of " + text("email"),
			TokenHash: "token of " + text("id"), UserID: text("user"), Role: text("role"), By: by}
	case "invitations":
		return workspace.ListInvitations{By: by}
	case "withdraw":
		return workspace.WithdrawInvitation{ID: text("id"), By: by}
	case "show":
		return workspace.ShowInvitation{Invitee: invitee(text)}
	case "accept":
		return workspace.AcceptInvitation{Invitee: invitee(text)}
	case "decline":
		return workspace.DeclineInvitation{Invitee: invitee(text)}
	case "timer":
		return decision.Fire{Key: "invitation/" + text("id"), Due: s.now}
	case "change-role":
		return workspace.ChangeRole{UserID: text("user"), Role: text("role"),
			KeepKeys: strings.FieldsFunc(text("keep"), plus), By: by}
	case "remove-member":
		return workspace.RemoveMember{UserID: text("user"), KeepKeys: strings.FieldsFunc(text("keep"), plus),
			KeepEndpoints: strings.FieldsFunc(text("keep-endpoints"), plus), By: by}
	case "rename":
		return workspace.Rename{Name: text("name"), By: by}
	case "set-mode":
		return workspace.SetMode{Mode: text("mode")}
	case "set-kyb":
		return workspace.SetKYB{Status: text("status")}
	case "sandbox-kyb":
		return workspace.SetKYB{Status: text("status"), BySandbox: true}
	case "read":
		return decision.Read{}
	}
	d.Fatalf(t, "no such step")
	return nil
}

func invitee(text func(string) string) workspace.Invitee {
	return workspace.Invitee{TokenHash: "token of " + text("id"), UserID: text("user"), EmailHash: "hash of " +
		text("email")}
}

func newKey(id, label string, scopes []string) workspace.NewKey {
	return workspace.NewKey{
		ID: id, Label: label, Scopes: scopes, Prefix: "apk_" + id, SecretHash: "secret of " + id, CreatedBy: "ann",
	}
}

func (s *scenario) send(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.state, s.now, command)
	s.now = s.now.Add(time.Second)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	var out strings.Builder
	out.WriteString(decisiontest.Apply(t, &s.state, workspace.DecodeEvent, d.Events...))
	for _, r := range d.Records {
		fmt.Fprintf(&out, "  %s\n", describeRecord(r))
	}
	for _, timer := range d.Timers {
		fmt.Fprintf(&out, "  timer %s %s\n", timer.Key,
			map[bool]string{true: "removed", false: "set"}[timer.Due.IsZero()])
	}
	return out.String() + describe(d.Reply)
}

func describeRecord(r decision.Record) string {
	switch doc := r.Document.(type) {
	case workspace.APIKey:
		return "record of key " + describe(doc)[:len(describe(doc))-1]
	case workspace.InvitationDocument:
		return fmt.Sprintf("%s %s for %s, personal: %v", r.Kind, r.ID, doc.Email, r.Personal)
	case workspace.InvitationToken:
		return r.ID + " finds the workspace"
	case workspace.SecretDocument:
		return fmt.Sprintf("%s opens key %s", r.ID, doc.KeyID)
	}
	return fmt.Sprintf("%s %s deleted: %v", r.Kind, r.ID, r.Delete)
}

func describe(reply any) string {
	switch v := reply.(type) {
	case workspace.View:
		return fmt.Sprintf("%s, plan %s, mode %s, verification %s, bank account %s, issuer account %s (fixture %v)\n", v.Name,
			v.Plan, v.Mode, v.KYBStatus, v.BankAccount.Status, v.IssuerAccount.ID, v.IssuerAccount.Fixture)
	case workspace.Created:
		return describe(v.Workspace) + describe(v.APIKey)
	case workspace.APIKey:
		line := fmt.Sprintf("%s %q by %s: %s", v.ID, v.Label, v.CreatedBy, strings.Join(v.Scopes, " "))
		if v.LastUsedAt != nil {
			line += " (used)"
		}
		if v.RevokedAt != nil {
			line += " (revoked)"
		}
		return line + "\n"
	case workspace.Revoked:
		return fmt.Sprintf("revoked: %v\n", v.Revoked)
	case workspace.Access:
		return fmt.Sprintf("%s%s may %s%s in %s mode, verification %s, use due %v\n", v.Principal.KeyID,
			v.Principal.UserID,
			strings.Join(v.Scopes, " "), v.Role, v.Mode, v.KYBStatus, v.UseDue)
	case workspace.Person:
		return fmt.Sprintf("%s is %s\n", v.UserID, v.Role)
	case workspace.MemberEnded:
		return fmt.Sprintf("%s: %s, revoked: %v\n", v.Person.UserID, v.Person.Role, v.Revoked)
	case workspace.Invitation:
		return fmt.Sprintf("%s: %s by %s, %s\n", v.ID, v.Role, v.InvitedBy, v.Status)
	case workspace.Invited:
		return "to " + v.Name + ", " + describe(v.Invitation)
	case []workspace.Invitation:
		var out strings.Builder
		for _, i := range v {
			out.WriteString(describe(i))
		}
		return out.String()
	case nil:
		return ""
	case []workspace.Person:
		var out strings.Builder
		for _, p := range v {
			out.WriteString(describe(p))
		}
		return out.String()
	}
	panic(fmt.Sprintf("reply %T", reply))
}

func plus(r rune) bool { return r == '+' }
