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

// scenario is one workspace, a minute between steps. Keys and users are called by their names; a key's secret is its name.
type scenario struct {
	state workspace.State
	now   time.Time
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step {
		s := &scenario{now: start}
		return func(t *testing.T, d *datadriven.TestData) string { return s.send(t, s.command(t, d)) }
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
			OwnerIDs: strings.Fields(strings.ReplaceAll(text("owners"), "+", " ")), IssuerID: "iss_1", IssuerFixture: true,
			FirstKey: newKey("first", text("label"), nil),
		}
	case "create-key":
		return workspace.CreateKey{By: by, NewKey: newKey(text("id"), text("label"), strings.Fields(d.Input))}
	case "older-key": // made when * could still be given
		s.state.Apply(workspace.KeyCreated{Workspace: s.state.ID, Key: workspace.Key{
			ID: text("id"), Label: "older", Scopes: []string{"*"}, Prefix: "apk_older", SecretHash: "secret of " + text("id"),
		}})
		return workspace.Authenticate{SecretHash: "secret of " + text("id")}
	case "revoke-key":
		return workspace.RevokeKey{ID: text("id"), By: by}
	case "authenticate":
		return workspace.Authenticate{SecretHash: "secret of " + text("key")}
	case "role":
		return workspace.Role{UserID: text("user")}
	case "use":
		return workspace.NoteUse{KeyID: text("key")}
	case "members":
		return workspace.ListMembers{By: by}
	case "add-member":
		return workspace.AddMember{UserID: text("user"), Role: text("role"), By: by}
	case "remove-member":
		return workspace.RemoveMember{UserID: text("user"), By: by}
	case "set-mode":
		return workspace.SetMode{Mode: text("mode")}
	case "set-kyb":
		return workspace.SetKYB{Status: text("status")}
	case "read":
		return decision.Read{}
	}
	d.Fatalf(t, "no such step")
	return nil
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
		return decisiontest.Refused(t, err)
	}
	var out strings.Builder
	out.WriteString(decisiontest.Apply(t, &s.state, workspace.DecodeEvent, d.Events...))
	for _, r := range d.Records {
		fmt.Fprintf(&out, "  %s\n", describeRecord(r))
	}
	return out.String() + describe(d.Reply)
}

func describeRecord(r decision.Record) string {
	switch doc := r.Document.(type) {
	case workspace.APIKey:
		return "record of key " + describe(doc)[:len(describe(doc))-1]
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
		return fmt.Sprintf("%s%s may %s%s in %s mode, verification %s, use due %v\n", v.Principal.KeyID, v.Principal.UserID,
			strings.Join(v.Scopes, " "), v.Role, v.Mode, v.KYBStatus, v.UseDue)
	case workspace.Person:
		return fmt.Sprintf("%s is %s\n", v.UserID, v.Role)
	case []workspace.Person:
		var out strings.Builder
		for _, p := range v {
			out.WriteString(describe(p))
		}
		return out.String()
	}
	panic(fmt.Sprintf("reply %T", reply))
}
