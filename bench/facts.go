package bench

import (
	"context"
	"fmt"
	"io"
	"regexp"
)

// The metrics whose labels describe the server.
const (
	buildInfo  = "purser_build_info"
	storesInfo = "purser_stores_info"
	notKnown   = "not known"
)

// collectFacts describes the server, its stores and the measurement, for the report. A fact that
// the server does not report is missing or "not known". It never fails.
func (r *run) collectFacts(ctx context.Context) map[string]string {
	infos := map[string]map[string]string{}
	if r.Target.Admin != "" {
		g := newGauges(r.Target.Admin, nil)
		_ = g.requestMetrics(ctx, func(text io.Reader) (err error) { // without an answer the fact is missing
			infos, err = infosOf(text)
			return err
		})
	}
	facts := map[string]string{"server": serverFact(infos[buildInfo]), "store": storeFact(infos[storesInfo]),
		"authorizer": syncFact(infos[storesInfo]),
		"warm-up":    fmt.Sprintf("the first %d ms of each load, a tenth of it at most, are not recorded", maxWarmUp.Milliseconds())}
	if inMemory(r.DiskDir) {
		facts["disk"] = "IN MEMORY (tmpfs): synced writes reach no disk"
	}
	return facts
}

var label = regexp.MustCompile(`(\w+)="([^"]*)"`)

// infosOf returns the labels of the info metrics in Prometheus's text format. It fails only with
// text's error.
func infosOf(text io.Reader) (map[string]map[string]string, error) {
	infos := map[string]map[string]string{}
	err := eachMetric(text, func(name, labels, _ string) {
		if name != buildInfo && name != storesInfo {
			return
		}
		infos[name] = map[string]string{}
		for _, pair := range label.FindAllStringSubmatch(labels, -1) {
			infos[name][pair[1]] = pair[2]
		}
	})
	return infos, err
}

// serverFact returns the server's version and revision, for the facts of a report. collectFacts
// calls it.
func serverFact(build map[string]string) string {
	switch {
	case build == nil:
		return notKnown
	case build["revision"] == "":
		return "purser " + build["version"] + ", revision " + notKnown
	}
	return "purser " + build["version"] + " " + build["revision"]
}

// storeFact returns the server's stores, for the facts of a report. collectFacts calls it.
func storeFact(stores map[string]string) string {
	store := map[string]string{"pebble": "embedded journal (Pebble)", "postgres": "Postgres"}[stores["journal"]]
	switch {
	case store == "":
		return notKnown
	case stores["events"] == "kafka":
		return store + ", Kafka"
	}
	return store
}

// syncFact returns whether the server syncs its answers, for the facts of a report. collectFacts
// calls it.
func syncFact(stores map[string]string) string {
	switch stores["authorizer_sync"] {
	case "true":
		return "every answer is synced"
	case "false":
		return "NOT synced: answers may be lost"
	}
	return notKnown
}
