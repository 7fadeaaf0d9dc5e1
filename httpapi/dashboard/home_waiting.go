package dashboard

import (
	"errors"
	"strconv"
)

// waitingRead is the number of records of a list that the first page counts.
const waitingRead = 25

// waitingFor counts what needs a person, each with a link to its list: payouts that are held or
// whose outcome is unknown, wallets without a proof, and webhook endpoints that fail.
func waitingFor(v *visit) ([]Block, error) {
	var stats []Stat
	for _, sec := range sections {
		more, err := v.waitingIn(sec.name)
		if err != nil {
			return nil, err
		}
		stats = append(stats, more...)
	}
	return []Block{{Waits: &Waiting{stats}}}, nil
}

// waiting are the sections that hold records which wait for a person, and what counts them.
var waiting = map[string]func(*visit) ([]Stat, error){"Payouts": waitingPayouts, "Ramp": unprovenWallets,
	webhookSection: failingEndpoints}

// waitingIn reads the waiting records of a section once.
func (v *visit) waitingIn(section string) (stats []Stat, err error) {
	count := waiting[section]
	if stats, read := v.waits[section]; read || count == nil {
		return stats, nil
	}
	if stats, err = count(v); err != nil {
		return nil, err
	}
	if v.waits == nil {
		v.waits = map[string][]Stat{}
	}
	v.waits[section] = stats
	return stats, nil
}

// readConnected reads a GET like readInto, and reports whether the server has a partner for it.
func readConnected(v *visit, into any, path string, params ...string) (bool, error) {
	err := v.readInto(into, path, params...)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.code == "capability_unavailable" {
		return false, nil
	}
	return err == nil, err
}

// countText writes a count, with a + when the list has more entries than were read.
func countText(count int, next *string) string {
	if next != nil {
		return strconv.Itoa(count) + " or more"
	}
	return strconv.Itoa(count)
}

// payoutsWaiting and payoutIcons name and draw the states of payouts that need a decision.
var (
	payoutsWaiting = map[string]string{"held": "Payouts to release", "outcome_unknown": "Payouts without an outcome"}
	payoutIcons    = map[string]string{"held": "clock", "outcome_unknown": "alert"}
)

// waitingPayouts counts the payouts of each state that needs a decision.
func waitingPayouts(v *visit) (stats []Stat, err error) {
	if !v.API.May("GET", payoutsPath) {
		return nil, nil
	}
	for _, state := range []string{"held", "outcome_unknown"} {
		var list payoutList
		if err := v.readInto(&list, payoutsPath, "status", state, "limit", strconv.Itoa(waitingRead)); err != nil {
			return nil, err
		}
		if len(list.Data) > 0 {
			stats = append(stats, Stat{Name: payoutsWaiting[state], Note: payoutMeaning(state),
				Icon:  payoutIcons[state],
				Count: len(list.Data), Uncounted: list.NextCursor != nil,
				Value: countText(len(list.Data), list.NextCursor), Href: v.addressOf("payouts") + "?status=" + state})
		}
	}
	return stats, nil
}

// unprovenWallets counts the wallets whose owner is not proven, among the newest waitingRead.
func unprovenWallets(v *visit) ([]Stat, error) {
	if !v.API.May("GET", rampWalletsPath) {
		return nil, nil
	}
	var list walletList
	if _, err := readConnected(v, &list, rampWalletsPath, "limit", strconv.Itoa(waitingRead)); err != nil {
		return nil, err
	}
	unproven := 0
	for _, w := range list.Data {
		if w.Status == "unproven" {
			unproven++
		}
	}
	if unproven == 0 {
		return nil, nil
	}
	return []Stat{{Icon: "key", Name: "Wallets to prove",
		Note:  "Sign the challenge of a wallet before USDC can leave to it.",
		Value: strconv.Itoa(unproven), Count: unproven, Href: v.addressOf("wallets")}}, nil
}

// failingEndpoints counts the webhook endpoints whose newest delivery got no 2xx answer. A
// workspace has few endpoints, and one delivery of each is read.
func failingEndpoints(v *visit) ([]Stat, error) {
	if !v.API.May("GET", endpointsPath) {
		return nil, nil
	}
	var list endpointList
	if err := v.readInto(&list, endpointsPath, "limit", strconv.Itoa(waitingRead)); err != nil {
		return nil, err
	}
	failing := 0
	for _, e := range list.Data {
		newest, err := v.newestDelivery(e.ID)
		if err != nil {
			return nil, err
		}
		if newest != nil && newest.hasFailed() {
			failing++
		}
	}
	if failing == 0 {
		return nil, nil
	}
	return []Stat{{Icon: "alert", Name: "Failing webhook endpoints", Note: "The newest delivery got no 2xx answer.",
		Value: strconv.Itoa(failing), Count: failing, Href: v.addressOf("webhooks")}}, nil
}

// hasFailed reports whether the newest attempt of a delivery got no 2xx answer, or the delivery
// ended without one.
func (d *delivery) hasFailed() bool {
	if last := d.last(); last != nil {
		return !last.isDelivered()
	}
	return d.Status == "failed"
}

// currencyStats are the balances in other currencies than dollars, each with its account.
func currencyStats(v *visit) ([]Block, error) {
	if !v.API.May("GET", currenciesPath) {
		return nil, nil
	}
	var list currencyList
	if _, err := readConnected(v, &list, currenciesPath); err != nil {
		return nil, err
	}
	var stats []Stat
	for _, a := range list.Accounts {
		if a.Currency == "USD" {
			continue
		}
		amount, err := minorCell(a.Currency, a.Balance.AvailableMinor)
		if err != nil {
			return nil, err
		}
		stats = append(stats, Stat{Name: nameOf(currencyNames, string(a.Currency)), Value: amount.Text,
			Href: v.addressOf("currencies", string(a.Currency))})
	}
	if len(stats) == 0 {
		return nil, nil
	}
	return []Block{{Strip: stats}}, nil
}
