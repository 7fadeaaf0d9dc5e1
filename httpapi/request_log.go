package httpapi

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
)

// Limits of the request log.
const (
	maxLoggedRequests = 1000    // per workspace; the oldest is dropped
	maxLoggedInAll    = 256_000 // of all workspaces; a log to which nothing was added while others grew by half of it is dropped
)

// loggedRequest is an answered request. It holds the row of the route table, and neither the
// requested path nor a part of the query or of a body.
type loggedRequest struct {
	at        time.Time // the time of its answer
	took      time.Duration
	route     *route
	status    int
	code      fault.Code
	id        string
	keyPrefix string // start of the API key that the request showed; "" for a session
	user      string // usr_ id of the session; "" for a key
}

// requestLog holds the newest requests of each workspace, in memory alone: it is empty after a
// start. Every request of a known caller is added, so that an add costs one lock and no allocation
// beyond the key's prefix. The logs are in two generations. An add moves its workspace's log to the
// young one. When that holds half of maxLoggedInAll it becomes the old one, and the former old one
// is dropped. A stranger with many workspaces thus has to send that many requests before a quiet
// workspace loses its log. It is safe for concurrent use. A nil log records nothing.
type requestLog struct {
	clock      func() time.Time
	mu         sync.RWMutex
	young, old map[string]*requestRing // by workspace
	held       atomic.Int64            // requests in young
}

// requestRing is the log of one workspace. Its request of number n, from 1, is at (n-1) modulo
// maxLoggedRequests.
type requestRing struct {
	mu       sync.Mutex
	requests []loggedRequest
	added    uint64
}

func newRequestLog(clock func() time.Time) *requestLog {
	return &requestLog{clock: clock, young: map[string]*requestRing{}}
}

// add adds the answer of a request, and the time that it took, to the log of the caller's
// workspace. A request without one, such as one that is unauthorized, is not logged.
func (l *requestLog) add(c *call, a answer, took time.Duration) {
	owner := c.who.workspace()
	if l == nil || owner == "" || c.route.readsLog {
		return
	}
	r := loggedRequest{took: took, route: c.route, status: a.status, code: a.code, id: c.id, user: c.who.user}
	if c.who.user == "" {
		r.keyPrefix = c.header.keyPrefix()
	}
	l.mu.RLock()
	ring := l.young[owner]
	l.mu.RUnlock()
	if ring == nil {
		ring = l.rejuvenate(owner)
	}
	if ring.add(r, l.clock) {
		l.held.Add(1)
	}
}

// keyPrefix returns the characters of the shown API key that the list of keys shows too.
func (h *header) keyPrefix() string {
	_, secret, _ := strings.Cut(h.authorization, " ")
	secret = strings.TrimSpace(secret)
	return strings.Clone(secret[:min(prefixChars, len(secret))])
}

// ringOf returns the log of a workspace, or nil.
func (l *requestLog) ringOf(workspace string) *requestRing {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if ring := l.young[workspace]; ring != nil {
		return ring
	}
	return l.old[workspace]
}

// rejuvenate returns the log of a workspace, moved to the young generation or made there. A full
// young generation becomes the old one first.
func (l *requestLog) rejuvenate(workspace string) *requestRing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ring := l.young[workspace]; ring != nil {
		return ring
	}
	ring := l.old[workspace]
	if l.held.Load() >= maxLoggedInAll/2 {
		l.old, l.young = l.young, map[string]*requestRing{}
		l.held.Store(0)
	}
	if ring == nil {
		ring = &requestRing{}
	}
	delete(l.old, workspace)
	l.young[workspace] = ring
	l.held.Add(int64(ring.size()))
	return ring
}

// size returns how many requests are held.
func (r *requestRing) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

// add adds a request with its time, and reports whether it took no other's place.
func (r *requestRing) add(request loggedRequest, clock func() time.Time) (grew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request.at = clock()
	if grew = len(r.requests) < maxLoggedRequests; grew {
		r.requests = append(r.requests, request)
	} else {
		r.requests[r.added%maxLoggedRequests] = request
	}
	r.added++
	return grew
}

// numbered is a logged request with its number in the log of its workspace.
type numbered struct {
	loggedRequest
	number uint64
}

// list returns up to limit requests that match, newest first, with a number below before; 0 begins
// with the newest. more reports whether further requests match.
func (l *requestLog) list(workspace string, before uint64, limit int,
	match func(*loggedRequest) bool) (out []numbered,
	more bool) {
	ring := l.ringOf(workspace)
	if ring == nil {
		return nil, false
	}
	ring.mu.Lock()
	defer ring.mu.Unlock()
	newest := ring.added
	if before != 0 {
		newest = min(newest, before-1)
	}
	oldest := ring.added - uint64(len(ring.requests))
	for n := newest; n > oldest; n-- {
		r := &ring.requests[(n-1)%maxLoggedRequests]
		if !match(r) {
			continue
		}
		if len(out) == limit {
			return out, true
		}
		out = append(out, numbered{*r, n})
	}
	return out, false
}

// requestLogHandlers serve the log of a workspace's requests.
type requestLogHandlers struct{ *edge }

// requestQuery holds the query parameters that narrow the request log.
var requestQuery = append([]string{"status", "method", "route", "keyPrefix", "requestId", "error"}, periodQuery...)

// requestLogRoutes returns the routes of the request log: for keys, and for sessions.
func (h *requestLogHandlers) requestLogRoutes() []route {
	asked := slices.Concat(requestQuery, pageQuery)
	return []route{
		{method: "GET", path: "/api/requests", auth: authKey, scope: "read:api_keys", query: asked,
			readsLog: true, handle: h.listRequests},
		{method: "GET", path: "/api/dashboard/requests", auth: authSession, roles: managers, query: asked,
			readsLog: true, handle: h.listRequests},
	}
}

// requestView is a logged request as the interface shows it.
type requestView struct {
	At         decision.Stamp `json:"at"`
	Method     string         `json:"method"`
	Route      string         `json:"route"`
	Status     int            `json:"status"`
	DurationMs int64          `json:"durationMs"`
	Error      *string        `json:"error"`
	RequestID  string         `json:"requestId"`
	KeyPrefix  *string        `json:"keyPrefix"`
	UserID     *string        `json:"userId"`
}

// listRequests handles GET /api/requests and GET /api/dashboard/requests: the newest requests of
// the workspace, newest first. It fails with invalid_query for a wrong filter, limit or cursor.
func (h *requestLogHandlers) listRequests(c *call) (answer, error) {
	match, err := c.readRequestFilter()
	if err != nil {
		return answer{}, err
	}
	l := listing{kind: "request_log", workspace: c.who.workspace(), filter: c.filterText(requestQuery...)}
	asked, err := c.readPage(l)
	if err != nil {
		return answer{}, err
	}
	requests, more := h.requests.list(l.workspace, asked.After.Position, asked.Limit, match)
	out := page{Data: []any{}}
	for i := range requests {
		out.Data = append(out.Data, requests[i].view())
	}
	if more {
		out.NextCursor = l.cursorBehind(query.Place{Position: requests[len(requests)-1].number})
	}
	return reply(out)
}

// readRequestFilter reads the filters of the request log as one condition. It fails with
// invalid_query, which names the parameter.
func (c *call) readRequestFilter() (func(*loggedRequest) bool, error) {
	isStatus, err := matchStatus(c.query["status"])
	if err != nil {
		return nil, err
	}
	method, ofMethod, err := c.readChoice("method", "GET", "POST", "PATCH", "DELETE")
	if err != nil {
		return nil, err
	}
	within, err := c.readListPeriod()
	if err != nil {
		return nil, err
	}
	text := map[string]string{}
	for _, name := range []string{"route", "keyPrefix", "requestId", "error"} {
		value, given := c.query[name]
		if given && (value == "" || utf8.RuneCountInString(value) > maxFilterText) {
			return nil, fault.New(fault.InvalidQuery, name+" must have between 1 and 200 characters")
		}
		text[name] = value
	}
	is := func(wanted, value string) bool { return wanted == "" || wanted == value }
	return func(r *loggedRequest) bool {
		return isStatus(r.status) && (!ofMethod || r.route.method == method) && within.includes(r.at) &&
			strings.HasPrefix(r.route.path, text["route"]) && strings.HasPrefix(r.keyPrefix, text["keyPrefix"]) &&
			is(text["requestId"], r.id) && is(text["error"], string(r.code))
	}, nil
}

// matchStatus returns the condition of the query's status: a status such as 404, or a class such as
// 4xx. "" matches every status. It fails with invalid_query.
func matchStatus(text string) (func(status int) bool, error) {
	if text == "" {
		return func(int) bool { return true }, nil
	}
	if class, isClass := strings.CutSuffix(text, "xx"); isClass && len(class) == 1 && class >= "2" && class <= "5" {
		return func(status int) bool { return status/100 == int(class[0]-'0') }, nil
	}
	wanted, err := strconv.Atoi(text)
	if err != nil || wanted < 100 || wanted > 599 || strconv.Itoa(wanted) != text {
		return nil, fault.New(fault.InvalidQuery, "status must be a number from 100 to 599, or 2xx, 3xx, 4xx or 5xx")
	}
	return func(status int) bool { return status == wanted }, nil
}

// view returns the request as the interface shows it.
func (r *loggedRequest) view() requestView {
	optional := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	return requestView{At: decision.StampOf(r.at), Method: r.route.method, Route: r.route.path, Status: r.status,
		DurationMs: max(0, r.took.Milliseconds()), Error: optional(string(r.code)), RequestID: r.id,
		KeyPrefix: optional(r.keyPrefix), UserID: optional(r.user)}
}
