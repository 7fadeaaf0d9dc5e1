package sandbox

import (
	"context"
	"time"

	"purser/actors/partner"
	"purser/persistence/money"
)

// Terms of the desk between two currencies.
const (
	offerFirm         = 30 * time.Second
	EndingShort       = 89 // an offer for such a fixed amount is firm for shortOffer only
	shortOffer        = 2 * time.Second
	crossRateDecimals = money.MaxRateDecimals
	// UnratedSell to UnratedBuy is the pair without a mid rate: an estimate of it is
	// rate_unavailable.
	UnratedSell, UnratedBuy = "CHF", "SGD"
)

// Offer implements partner.Desk: the cross of the mid rates less the spread, firm for offerFirm. A
// currency without a mid rate is partner.ErrRefused.
func (Desk) Offer(_ context.Context, w partner.OfferRequest) (partner.Offer, error) {
	rate, err := crossRate(w.Sell, w.Buy, SpreadBasisPoints)
	firm := offerFirm
	if w.AmountMinor%100 == EndingShort {
		firm = shortOffer
	}
	return partner.Offer{Rate: rate, Firm: firm}, err
}

// MidRate implements partner.Desk: the cross of the mid rates. Partner.ErrRefused reports a
// currency without a mid rate, and the pair UnratedSell to UnratedBuy.
func (Desk) MidRate(_ context.Context, sell, buy string) (string, error) {
	if sell == UnratedSell && buy == UnratedBuy {
		return "", partner.ErrRefused
	}
	return crossRate(sell, buy, 0)
}

// crossRate returns how many units of buy one unit of sell is worth, less a spread in basis points.
// It fails with ErrRefused for a currency without a mid rate.
func crossRate(sell, buy string, points int64) (string, error) {
	base, err := midRate(sell)
	if err != nil {
		return "", err
	}
	rate, err := midRate(buy)
	if err != nil {
		return "", err
	}
	rate, err = rate.Per(base, points, crossRateDecimals)
	return rate.String(), err
}

// midRate returns the mid rate of a currency, in units for one dollar. A currency without one is
// partner.ErrRefused.
func midRate(currency string) (money.Rate, error) {
	text, dealt := midRates()[currency]
	if currency == string(money.USD) {
		text, dealt = "1", true
	}
	if !dealt {
		return money.Rate{}, partner.ErrRefused
	}
	return money.ParseRate(text)
}
