package dashboard

// reason is the name of a decision's reason in the interface, with a sentence that explains it.
type reason struct{ name, says string }

// reasons are the reasons that an authorization can have, in the order of the guide of decisions,
// which also says what to do.
var reasons = []reason{
	{"approved", "The amount is held."},
	{"forced_post", "A clearing without a matching hold was posted."},
	{"invalid_request", "The message has a field that is not valid."},
	{"card_not_found", "No card has this token."},
	{"card_terminated", "The card has ended for good."},
	{"card_frozen", "The card is frozen."},
	{"currency_not_supported", "The authorization is in another currency than the card takes."},
	{"mcc_not_allowed", "The card's scope excludes the merchant's category."},
	{"merchant_not_allowed", "The card's scope excludes the merchant."},
	{"per_transaction_limit_exceeded", "The amount is above the card's limit of one transaction."},
	{"monthly_limit_exceeded", "The amount does not fit into the rest of the month's limit."},
	{"insufficient_funds", "The workspace's balance does not cover the amount."},
	{"duplicate_mismatch", "The network id was used for another message."},
	{"authorization_not_found", "The message names an authorization that is not there."},
	{"reversed_before_arrival", "The authorization's reversal arrived first."},
	{"timeout", "The decision was not made in time."},
	{"backlog_full", "The journal is too far behind."},
	{"system_unavailable", "The server cannot store decisions, for example on a full disk."},
}

// reasonNames name the reasons that people know by other words than the interface's.
var reasonNames = map[string]string{"mcc_not_allowed": "Category not allowed",
	"per_transaction_limit_exceeded": "Over the limit per swipe", "monthly_limit_exceeded": "Over the monthly limit",
	"insufficient_funds": "Not enough dollars", "card_not_found": "Card not found", "timeout": "Not decided in time",
	"forced_post": "Cleared without a hold", "currency_not_supported": "Not in dollars"}

// reasonName names a reason in words.
func reasonName(name string) string { return nameOf(reasonNames, name) }

// reasonAdvice is what a person can do about a declined swipe.
var reasonAdvice = map[string]string{
	"card_frozen":                    "Make the card active again on its page.",
	"card_terminated":                "Create another card.",
	"mcc_not_allowed":                "Add the category on the card's page if it should be allowed.",
	"merchant_not_allowed":           "Add the merchant on the card's page if it should be allowed.",
	"per_transaction_limit_exceeded": "Raise the limit on the card's page if such amounts should pass.",
	"monthly_limit_exceeded":         "Raise the limit on the card's page, or wait for the first day of the next month, UTC.",
	"insufficient_funds":             "Add dollars to the workspace.",
	"timeout":                        "Swipe again.",
	"backlog_full":                   "Swipe again in a moment.",
	"system_unavailable":             "Ask the server's operator.",
}

// reasonSentence returns the sentence that explains a reason, or "" for an unknown one.
func reasonSentence(name string) string {
	for _, r := range reasons {
		if r.name == name {
			return r.says
		}
	}
	return ""
}
