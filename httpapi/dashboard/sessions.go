package dashboard

import "time"

const sessionsPath = "/api/dashboard/sessions"

// session is a session in the interface.
type session struct {
	ID                               string
	CreatedAt, LastUsedAt, ExpiresAt time.Time
	Current                          bool
}

// sessionPages are the page of one session; the page of the account lists them.
func sessionPages() []page {
	return []page{{path: "account/sessions/{id}", access: personal, show: showSession, actions: []action{
		{name: "end", method: "DELETE", path: sessionsPath + "/{id}", submit: "End the session",
			danger: "End the session? Its browser has to sign in again.",
			then: func(*visit, []byte) (string, error) {
				return Root + "/account?" + doneParameter + "=others",
					nil
			}},
	}}}
}

// readSessions reads the open sessions, newest first.
func (v *visit) readSessions() ([]session, error) {
	var list struct{ Data []session }
	err := v.readInto(&list, sessionsPath, "limit", "100")
	return list.Data, err
}

// sessionTable draws the open sessions.
func sessionTable(sessions []session) *Table {
	t := &Table{Caption: "Sessions", Columns: []Column{{Name: "Browser", Role: rolePrimary}, {Name: "Last used (UTC)",
		Role: roleSecond}, {Name: "Signed in (UTC)"}, {Name: "Ends (UTC)"}}}
	for _, s := range sessions {
		browser := linkCell("Another", Root+"/account/sessions/"+s.ID)
		if s.Current {
			browser = plainCell("This one")
		}
		t.Rows = append(t.Rows, []Cell{browser, timeCell(s.LastUsedAt), timeCell(s.CreatedAt), timeCell(s.ExpiresAt)})
	}
	return t
}

// showSession shows one session with the button that ends it.
func showSession(v *visit) (*View, error) {
	sessions, err := v.readSessions()
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		if s.ID != v.recordID() {
			continue
		}
		buttons, err := v.drawButtons("end")
		facts := []Fact{{"Signed in (UTC)", timeCell(s.CreatedAt)}, {"Last used (UTC)", timeCell(s.LastUsedAt)},
			{"Ends (UTC)", timeCell(s.ExpiresAt)}}
		return &View{Title: "Session", Up: &Link{"Your account", Root + "/account"},
			Blocks: append([]Block{{Facts: facts}}, buttons...)}, err
	}
	return nil, notHere()
}
