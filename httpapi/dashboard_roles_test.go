package httpapi

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/workspace"
	"purser/httpapi/dashboard"
)

// The owner reads every page. A page that a role may not read is refused, and no page that it may
// read leads there.
func TestEveryPageForEveryRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.newCast()
	pages := w.sitePages()
	for role, cookie := range c.cookies {
		read, leadsTo := map[string]int{}, map[string]string{}
		for _, p := range pages {
			address := p.addressIn(c.workspace, c.estate)
			page := w.visit(session(cookie), address, nil)
			read[address] = page.status
			if !p.Member && len(p.kinds) > 0 && role != workspace.Owner {
				require.Equal(t, 404, page.status, "%s reads another person's %s", role, p.Address)
				continue
			}
			require.Contains(t, []int{200, 403}, page.status, "%s reads %s: %s", role, p.Address, page.text)
			for _, href := range attributesOf(w.parsePage(page.text), "a", "href") {
				leadsTo[href] = p.Address
			}
			if role == workspace.Owner {
				require.Equal(t, 200, page.status, "%s: %s", p.Address, page.text)
			}
		}
		for href, from := range leadsTo {
			if read[href] == 0 && strings.HasPrefix(href, dashboard.Root) {
				read[href] = w.visit(session(cookie), href, nil).status
			}
			require.Less(t, read[href], 400, "%s is led from %s to %s", role, from, href)
		}
	}
}

// A form that a role may not send is not on its pages. Sending it anyway is 403 and changes
// nothing.
func TestEveryFormForEveryRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.newCast()
	for _, p := range w.sitePages() {
		if !p.Member {
			continue
		}
		address := p.addressIn(c.workspace, c.estate)
		for role, cookie := range c.cookies {
			shown := attributesOf(w.parsePage(w.visit(session(cookie), address, nil).text), "form", "action")
			for _, f := range p.Forms {
				if w.permits(role, f) {
					continue
				}
				require.False(t, slices.ContainsFunc(shown, func(action string) bool {
					path, _, _ := strings.Cut(action, "?")
					return path == address+"/"+f.Name
				}), formName(role, f))
				w.refusesForm(session(cookie), address, f, 403, role)
			}
		}
	}
}

// A page of another workspace is not found, and neither is one's own page of another workspace's
// record. Forms that are sent there change nothing.
func TestEveryPageAndFormForAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.newCast()
	for _, p := range w.sitePages() {
		if !p.Member {
			continue
		}
		addresses := []string{p.addressIn(c.workspace, c.estate)}
		if len(p.kinds) > 0 {
			addresses = append(addresses, p.addressIn(c.stranger.workspace, c.estate))
		}
		for _, address := range addresses {
			require.Equal(t, 404, w.visit(session(c.stranger.cookie), address, nil).status, address)
			for _, f := range p.Forms {
				w.refusesForm(session(c.stranger.cookie), address, f, 404, "stranger")
			}
		}
	}
}

// Without a session every page but the public ones leads to the sign-in, and forms change nothing.
func TestEveryPageAndFormWithoutASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.newCast()
	for _, p := range w.sitePages() {
		address := p.addressIn(c.workspace, c.estate)
		page := w.visit(nil, address, nil)
		if p.Public {
			require.Equal(t, 200, page.status, address)
			continue
		}
		require.Equal(t, 303, page.status, address)
		require.Equal(t, "/dashboard/sign-in?next="+url.QueryEscape(address), page.location)
		for _, f := range p.Forms {
			sent := w.refusesForm(nil, address, f, 303, "signed out")
			require.True(t, strings.HasPrefix(sent.location, "/dashboard/sign-in"), formName("signed out", f))
		}
	}
}

// A form that another site's page sends is refused and changes nothing.
func TestFormsRefuseForeignOrigins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.newCast()
	for _, p := range w.sitePages() {
		address := p.addressIn(c.workspace, c.estate)
		for _, f := range p.Forms {
			for name, value := range map[string]string{"Origin": "https://evil.example", "origin": "null",
				"Sec-Fetch-Site": "cross-site"} {
				w.refusesForm(session(c.cookie).with(name, value), address, f, 403, name+" "+value)
			}
		}
	}
}

// refusesForm sends a complete form, and requires a status and that nothing changes.
func (w *world) refusesForm(who as, address string, f dashboard.FormAddress, status int, name string) pageReply {
	w.t.Helper()
	before := w.settled()
	sent := w.visit(who, address+"/"+f.Name, w.fillForm(f))
	require.Equal(w.t, status, sent.status, "%s: %s", formName(name, f), sent.text)
	require.Equal(w.t, before, w.settled(), formName(name, f))
	return sent
}
