package processes

// webhookCalls is how many attempts at webhooks may be under way: half of the outbound calls.
func (c *Config) webhookCalls() int { return c.callShare(maxSending, 4) }

// bankCalls is how many calls may wait for the bank: three eighths of the outbound calls.
func (c *Config) bankCalls() int { return c.callShare(maxBankCalls, 3) }

// rampCalls is how many calls may wait for the ramp: an eighth of the outbound calls.
func (c *Config) rampCalls() int { return c.callShare(maxRampCalls, 1) }

// callShare is a kind's own limit, and at most so many eighths of the outbound calls.
func (c *Config) callShare(most, eighths int) int {
	if c.OutboundCalls == 0 {
		return most
	}
	return max(1, min(most, c.OutboundCalls*eighths/8))
}
