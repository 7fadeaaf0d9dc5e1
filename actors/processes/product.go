package processes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"purser/actors"
	"purser/actors/partner"
)

// Config has the settings of the runtime, whose Attach must be nil, and the partners of the processes.
// Bank is required, but for a runtime that is Still.
type Config struct {
	actors.Config
	Bank     partner.Bank
	Desk     partner.Desk    // nil: no exchange rates
	Issuer   partner.Issuer  // nil: no cardholder is enrolled
	Ramp     partner.Ramp    // nil: dollars are not exchanged for USDC, nor back
	Prices   partner.Prices  // nil: only stablecoins are accepted at a checkout
	Accounts Accounts        // nil: no checkout
	Poster   actors.Poster   // nil: no webhook is sent, deliveries stay pending
	Chains   []partner.Chain // on which payments are looked for
	// WatchEvery is how often each chain is looked at; 0: every second.
	WatchEvery time.Duration
}

// Product is the runtime with the processes of Purser over it.
type Product struct {
	*actors.System
	*Checkouts
	*Enrolments
	*Rates
}

// processes are those that the runtime calls.
type processes struct {
	agents      *agentMirror
	checkouts   *Checkouts
	deposits    *deposits
	memberships *memberships
}

// Start starts the runtime with the processes. See actors.Start.
func Start(ctx context.Context, c Config) (*Product, error) {
	if c.Bank == nil && !c.Still {
		return nil, errors.New("processes.Config.Bank is required")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Config.Bank, c.Config.Ramp = c.Bank, c.Ramp
	c.Config.Poster, c.Config.Chains, c.Config.WatchEvery = c.Poster, c.Chains, c.WatchEvery
	p := &Product{}
	c.Attach = func(runtime *actors.System) actors.Hooks { return p.attach(runtime, &c) }
	system, err := actors.Start(ctx, c.Config)
	if err != nil {
		return nil, err
	}
	p.System = system
	return p, nil
}

// attach makes the processes over a runtime.
func (p *Product) attach(runtime *actors.System, c *Config) actors.Hooks {
	p.Enrolments = &Enrolments{c.Issuer, c.Logger}
	p.Rates = &Rates{c.Desk, c.Logger}
	p.Checkouts = &Checkouts{runtime, c.Accounts, c.Prices, c.Chains, c.Journal.Identity, c.Logger}
	called := &processes{
		agents:      &agentMirror{runtime, c.Issuer, c.Logger},
		checkouts:   p.Checkouts,
		deposits:    &deposits{c.Bank},
		memberships: &memberships{runtime},
	}
	return actors.Hooks{Reactions: called.reactions()}
}
