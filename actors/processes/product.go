package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"purser/actors"
	"purser/actors/bankday"
	"purser/actors/partner"
)

// Config has the settings of the runtime and the partners of the processes. Bank is required,
// except for a runtime that is Still. Attach is set by Start, and so are Kinds when they are nil.
type Config struct {
	actors.Config
	Bank     partner.Bank
	Desk     partner.Desk    // nil: no exchange rates
	Issuer   partner.Issuer  // nil: no cardholder is enrolled
	Ramp     partner.Ramp    // nil: dollars are not exchanged for USDC, nor back
	Prices   partner.Prices  // nil: only stablecoins are accepted at a checkout
	Accounts Accounts        // nil: no checkout
	Poster   Poster          // nil: no webhook is sent, deliveries stay pending
	Chains   []partner.Chain // on which payments are looked for
	// WatchEvery is how often each chain is looked at; 0: every second.
	WatchEvery time.Duration
	Listener   Listener // nil: Config.Listener receives the runtime's part
	// OutboundCalls bounds the calls that are under way to bank, ramp and webhook endpoints,
	// because each takes a descriptor. 0: no bound beyond those of each kind.
	OutboundCalls int
}

// Product is the runtime with the processes of Purser over it. Its methods are those of the System
// and of the processes that handlers and commands call.
type Product struct {
	*actors.System
	*Checkouts
	*Enrolments
	*OverdueOrders
	*PhysicalCards
	*Ramps
	*Rates
	*Webhooks
}

// processes are the processes that the runtime calls.
type processes struct {
	abandoned   *abandonedOrders
	agents      *agentMirror
	checkouts   *Checkouts
	conversions *conversions
	deposits    *deposits
	inquiries   *orderInquiries
	memberships *memberships
	emails      *emails
	payouts     *payouts
	physical    *PhysicalCards
	ramps       *Ramps
	recipients  *recipients
	watch       *chainWatch
	webhooks    *Webhooks
}

// Start starts the runtime with the processes. It fails without a Bank unless c is Still, and
// without the embedded time zone rules. For any other error, and for ctx, the contract of
// actors.Start holds.
func Start(ctx context.Context, c Config) (*Product, error) {
	if c.Bank == nil && !c.Still {
		return nil, errors.New("processes.Config.Bank is required")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Kinds == nil {
		c.Kinds = Kinds()
	}
	if c.Listener == nil {
		c.Listener = silent{}
	} else {
		c.Config.Listener = c.Listener
	}
	calendar, err := bankday.New()
	if err != nil {
		return nil, fmt.Errorf("calendar of bank days: %w", err)
	}
	p := &Product{}
	c.Attach = func(runtime *actors.System) actors.Hooks { return p.attach(runtime, &c, calendar) }
	if p.System, err = actors.Start(ctx, c.Config); err != nil {
		return nil, err
	}
	return p, nil
}

// attach makes the processes over a runtime and returns what the runtime calls of them. It is
// Config.Attach, which actors.Start calls once; it never fails.
func (p *Product) attach(runtime *actors.System, c *Config, calendar *bankday.Calendar) actors.Hooks {
	p.Checkouts = &Checkouts{runtime, c.Accounts, c.Prices, c.Chains, c.Journal.Identity, c.Logger}
	p.Enrolments = &Enrolments{c.Issuer, c.Logger}
	p.OverdueOrders = &OverdueOrders{runtime: runtime, journal: c.Journal, calendar: calendar, log: c.Logger}
	p.PhysicalCards = &PhysicalCards{runtime, c.Logger}
	p.Ramps = newRamps(runtime, c)
	p.Rates = &Rates{c.Desk, c.Logger}
	p.Webhooks = newWebhooks(runtime, c)

	orders := newBankOrders(runtime, c)
	recipients := &recipients{runtime, c.Bank, c.Logger}
	payouts := &payouts{runtime, orders, recipients, c.Logger}
	conversions := &conversions{runtime, orders, c.Logger}
	called := &processes{
		abandoned:   &abandonedOrders{runtime: runtime, journal: c.Journal},
		agents:      &agentMirror{runtime, c.Issuer, c.Logger},
		checkouts:   p.Checkouts,
		conversions: conversions,
		deposits:    &deposits{c.Bank},
		inquiries:   newOrderInquiries(runtime, c.Bank, payouts, conversions, p.OverdueOrders),
		memberships: &memberships{runtime},
		emails:      &emails{runtime},
		payouts:     payouts,
		physical:    p.PhysicalCards,
		ramps:       p.Ramps,
		recipients:  recipients,
		watch:       newChainWatch(runtime, c),
		webhooks:    p.Webhooks,
	}
	return actors.Hooks{
		Reactions:     called.reactions(),
		TimerAnswered: called.handleTimer,
		BeforeLoops:   called.abandoned.find,
		Loops:         []func(context.Context){called.watch.run, called.abandoned.fireTimers},
		Housekeep:     called.webhooks.countDeliveries,
	}
}
