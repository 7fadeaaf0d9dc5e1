package httpapi

import (
	"context"
	"fmt"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/httpapi/dashboard"
	"purser/persistence/ident"
)

// invitationRoutes returns the routes of invitations, for the workspace's owner and the invited
// user.
func (h *workspaceHandlers) invitationRoutes() []route {
	const path = "/api/dashboard/invitations"
	owner := []string{workspace.Owner}
	return []route{
		{method: "GET", path: path, auth: authSession, roles: owner, query: pageQuery, handle: h.listInvitations},
		{method: "DELETE", path: path + "/{id}", auth: authSession, roles: owner, handle: h.withdrawInvitation},
		{method: "POST", path: path + "/show", onFullDisk: true, auth: authSession, handle: h.showInvitation},
		{method: "POST", path: path + "/accept", auth: authSession, handle: h.acceptInvitation},
		{method: "POST", path: path + "/decline", onFullDisk: true, auth: authSession, handle: h.declineInvitation},
	}
}

// invitationDocument is an invitation in the owner's view.
type invitationDocument struct {
	ID        string         `json:"id"`
	Email     string         `json:"email"`
	Role      string         `json:"role"`
	InvitedBy string         `json:"invitedBy"`
	CreatedAt decision.Stamp `json:"createdAt"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

func showToOwner(i workspace.Invitation, email string) invitationDocument {
	return invitationDocument{ID: i.ID, Email: email, Role: i.Role, InvitedBy: i.InvitedBy, CreatedAt: i.CreatedAt,
		ExpiresAt: i.ExpiresAt}
}

// inviteMember handles POST /api/dashboard/members: it invites the holder of an email. The answer
// does not disclose whether an account exists. It is the only answer with the token. It fails with
// invalid_body, with already_member, and with the workspace's refusal.
func (h *workspaceHandlers) inviteMember(c *call) (answer, error) {
	var body struct {
		Email string `json:"email"`
		Role  string `json:"role"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	folded, ok := user.FoldEmail(body.Email)
	if !ok {
		return answer{}, fault.New(fault.InvalidBody, "email must be an email address")
	}
	invite, token, err := h.newInvitation(c)
	if err != nil {
		return answer{}, err
	}
	invite.Email, invite.EmailHash, invite.Role, invite.By = body.Email, user.EmailHash(folded), body.Role,
		c.who.asPrincipal()
	if invite.UserID, _, err = h.accounts.credentialOf(c.ctx, folded); err != nil {
		return answer{}, err
	}
	return askIdempotent(h.edge, c, toWorkspace(c.who.workspace(), invite),
		func(i workspace.Invitation) (answer, error) {
			return reply(map[string]any{"invitation": showToOwner(i, body.Email), "token": token,
				"url": h.cfg.BaseURL + dashboard.Root + "/invitation?token=" + token})
		})
}

// newInvitation draws the id and the token of an invitation. Only the token's hash is stored. It
// fails only without entropy.
func (h *workspaceHandlers) newInvitation(c *call) (invite workspace.Invite, token string, err error) {
	slot, err := c.slot()
	if err != nil {
		return invite, "", err
	}
	id, err := ident.New(slot, c.now, h.actors.Entropy())
	if err != nil {
		return invite, "", err
	}
	if token, err = ident.NewSecret(ident.InviteSecret, slot, h.actors.Entropy()); err != nil {
		return invite, "", err
	}
	_, hash, err := ident.ParseSecret(ident.InviteSecret, token)
	if err != nil {
		return invite, "", fmt.Errorf("a fresh token: %w", err)
	}
	return workspace.Invite{ID: id.Format(ident.Invitation), TokenHash: hash}, token, nil
}

// listInvitations handles GET /api/dashboard/invitations: the pending invitations, for owners. It
// fails like listInState.
func (h *workspaceHandlers) listInvitations(c *call) (answer, error) {
	pending, err := ask[[]workspace.Invitation](c.ctx, h.actors,
		toWorkspace(c.who.workspace(), workspace.ListInvitations{By: c.who.asPrincipal()}))
	if err != nil {
		return answer{}, err
	}
	return listInState(c, "invitation", pending,
		func(i workspace.Invitation) time.Time { return i.CreatedAt.Time },
		func(i workspace.Invitation) (any, error) {
			email, err := h.invitedEmail(c.ctx, c.who.workspace(), i.ID)
			return showToOwner(i, email), err
		})
}

// invitedEmail returns the email of a pending invitation, or "" when the invitation has ended since
// it was listed. It fails when the record cannot be read.
func (h *workspaceHandlers) invitedEmail(ctx context.Context, owned, id string) (string, error) {
	document, err := query.Invitations.Read(ctx, h.actors, owned, id)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return document.Email, err
}

// withdrawInvitation handles DELETE /api/dashboard/invitations/{id}, for owners. It fails with the
// workspace's refusal of an unknown invitation.
func (h *workspaceHandlers) withdrawInvitation(c *call) (answer, error) {
	id := c.params["id"]
	email, err := h.invitedEmail(c.ctx, c.who.workspace(), id)
	if err != nil {
		return answer{}, err
	}
	withdrawn, err := ask[workspace.Invitation](c.ctx, h.actors,
		toWorkspace(c.who.workspace(), workspace.WithdrawInvitation{ID: id, By: c.who.asPrincipal()}))
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"invitation": showToOwner(withdrawn, email)})
}

// receivedDocument is an invitation in the invited person's view.
type receivedDocument struct {
	ID            string         `json:"id"`
	WorkspaceID   string         `json:"workspaceId"`
	WorkspaceName string         `json:"workspaceName"`
	Role          string         `json:"role"`
	InviterEmail  string         `json:"inviterEmail"`
	Status        string         `json:"status"`
	ExpiresAt     decision.Stamp `json:"expiresAt"`
}

func (h *workspaceHandlers) showInvitation(c *call) (answer, error) {
	return h.answerInvitation(c, func(by workspace.Invitee) any { return workspace.ShowInvitation{Invitee: by} })
}

// acceptInvitation handles POST /api/dashboard/invitations/accept: it makes the session's user a
// member. Joined workspaces have their own limit, user.MaxForeign, beyond which it fails with
// limit_exceeded. It also fails like answerInvitation.
func (h *workspaceHandlers) acceptInvitation(c *call) (answer, error) {
	view, err := h.readUser(c.ctx, c.who.user)
	if err != nil {
		return answer{}, err
	}
	if !user.HasRoom(view.Workspaces, true) {
		return answer{}, fault.New(fault.LimitExceeded,
			fmt.Sprintf("a user joins at most %d workspaces", user.MaxForeign))
	}
	return h.answerInvitation(c, func(by workspace.Invitee) any { return workspace.AcceptInvitation{Invitee: by} })
}

func (h *workspaceHandlers) declineInvitation(c *call) (answer, error) {
	return h.answerInvitation(c, func(by workspace.Invitee) any { return workspace.DeclineInvitation{Invitee: by} })
}

// answerInvitation sends the user's response to the workspace of the body's token. A token that is
// malformed, unknown, used or for another email is not_found.
func (h *workspaceHandlers) answerInvitation(c *call, command func(workspace.Invitee) any) (answer, error) {
	var body struct {
		Token string `json:"token"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	slot, hash, err := ident.ParseSecret(ident.InviteSecret, body.Token)
	if err != nil {
		return answer{}, fault.New(fault.NotFound, "")
	}
	document, err := query.InvitationTokens.Find(c.ctx, h.actors, slot, hash)
	if err != nil {
		return answer{}, err
	}
	credential, err := h.accounts.readCredential(c.ctx, c.who.user)
	if err != nil {
		return answer{}, err
	}
	folded, ok := user.FoldEmail(credential.Email)
	if !ok {
		return answer{}, fmt.Errorf("the email of %s does not fold", c.who.user)
	}
	by := workspace.Invitee{TokenHash: hash, UserID: c.who.user, EmailHash: user.EmailHash(folded)}
	invited, err := ask[workspace.Invited](c.ctx, h.actors, toWorkspace(document.WorkspaceID, command(by)))
	if err != nil {
		return answer{}, err
	}
	i := invited.Invitation
	inviter, err := h.accounts.readCredential(c.ctx, i.InvitedBy)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"invitation": receivedDocument{ID: i.ID, WorkspaceID: invited.Workspace,
		WorkspaceName: invited.Name, Role: i.Role, InviterEmail: inviter.Email, Status: i.Status,
		ExpiresAt: i.ExpiresAt}})
}
