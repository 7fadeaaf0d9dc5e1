package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"purser/actors"
	"purser/actors/audit"
	"purser/actors/balance"
	"purser/actors/workspace"
	"purser/cmd/purser/buildinfo"
	"purser/cmd/purser/storecare"
	"purser/httpapi"
	"purser/httpapi/dashboard"
)

// operatorDesk reads the state of the server for the operator's pages. It implements
// dashboard.Operator.
type operatorDesk struct {
	m         *daemon
	lastAudit atomic.Pointer[dashboard.AuditResult]
}

// operatorPages configures the operator's pages.
func (m *daemon) operatorPages() *httpapi.OperatorConfig {
	m.desk = &operatorDesk{m: m}
	return &httpapi.OperatorConfig{Secret: m.config.OperatorSecret, State: m.desk, Clock: m.Clock, Entropy: m.Entropy}
}

// Status implements dashboard.Operator.
func (d *operatorDesk) Status() dashboard.ServerStatus {
	s := dashboard.ServerStatus{Version: buildinfo.Build(), Audit: d.lastAudit.Load(), Disks: d.m.disk.listSpaces()}
	if err := d.m.ready(); err != nil {
		s.Problems = strings.Split(err.Error(), "\n")
	}
	_, leave, err := d.m.stores.enter()
	if err != nil {
		return s
	}
	defer leave()
	var seen sight
	if err := seen.readActors(d.m.system); err != nil {
		s.Problems = append(s.Problems, err.Error())
	}
	seen.readAuthorizer(d.m.authorizer)
	h := &seen.actors
	s.Running = true
	s.RelayLag, s.BacklogCents, s.BacklogEntries, s.BacklogLimit = h.RelayAge, h.RelayCents, seen.backlog,
		seen.backlogMax
	s.FollowerLag, s.FollowerLate = h.FollowerLag, h.FollowerLate
	s.Reservations, s.ReservationAge = h.Reservations, h.ReservationAge
	s.LostShards, s.SetAside, s.SetAsideEntries = h.LostShards, h.SetAside, h.SetAsideEntries
	s.Overdue, s.Queued = seen.overdue, h.LaneQueued
	return s
}

// Unmatched implements dashboard.Operator.
func (d *operatorDesk) Unmatched(ctx context.Context, cursor string) (page dashboard.UnmatchedPage, err error) {
	_, leave, err := d.m.stores.enter()
	if err != nil {
		return page, err
	}
	defer leave()
	documents, next, err := storecare.ReadRecords(ctx, d.m.journal, d.m.sealer, balance.RecordUnmatched, cursor)
	if err != nil {
		return page, err
	}
	page.Next = next
	for _, document := range documents {
		var r balance.Unmatched
		if err := json.Unmarshal(document, &r); err != nil {
			return page, fmt.Errorf("an unmatched report that cannot be read: %w", err)
		}
		page.Reports = append(page.Reports, dashboard.UnmatchedReport{ID: r.ID, Partner: r.Partner,
			EventID: r.EventID,
			Type:    r.Type, At: r.At.Time})
	}
	return page, nil
}

// Workspaces implements dashboard.Operator.
func (d *operatorDesk) Workspaces(ctx context.Context, cursor string) (page dashboard.WorkspacePage, err error) {
	_, leave, err := d.m.stores.enter()
	if err != nil {
		return page, err
	}
	defer leave()
	documents, next, err := storecare.ReadRecords(ctx, d.m.journal, d.m.sealer, actors.KindWorkspace, cursor)
	if err != nil {
		return page, err
	}
	page.Next = next
	for _, document := range documents {
		var s workspace.State
		if err := json.Unmarshal(document, &s); err != nil {
			return page, fmt.Errorf("a workspace that cannot be read: %w", err)
		}
		page.Workspaces = append(page.Workspaces, dashboard.WorkspaceSummary{ID: s.ID, Name: s.Name, Mode: s.Mode,
			KYBStatus: s.KYBStatus, Members: len(s.Members), Keys: len(s.Keys), CreatedAt: s.CreatedAt.Time})
	}
	return page, nil
}

// noteAudit keeps the result of an audit for the operator's pages. err says why the audit did not
// end, and is nil when it did.
func (d *operatorDesk) noteAudit(r audit.Report, err error) {
	result := &dashboard.AuditResult{At: d.m.Clock(), More: r.More, Compared: fmt.Sprintf(
		"%d events, %d transfers, %d workspaces, %d cards, %d authorizations", r.Events, r.Transfers, r.Workspaces,
		r.Cards, r.Authorizations)}
	if err != nil {
		result.Failure = err.Error()
	}
	for _, f := range r.Findings {
		result.Findings = append(result.Findings, fmt.Sprintf("%s %s: %s: expected %s, found %s", f.Kind, f.ID,
			f.What,
			f.Expected, f.Actual))
	}
	d.lastAudit.Store(result)
}
