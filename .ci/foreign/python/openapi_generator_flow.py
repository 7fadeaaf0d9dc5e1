"""From sign-up to a webhook, with the Python client that openapi-generator makes."""
import json

import purser_api as purser
from receiver import Receiver
from steps import API, fresh, swipe, until


def refusal(call, status):
    try:
        call()
    except purser.ApiException as refused:
        assert refused.status == status, refused
        assert isinstance(refused.data, purser.ApiError)
        return refused.data.error
    raise AssertionError(f"no refusal with the status {status}")


# A person: the generated client adds the cookie's name.
anyone = purser.DashboardApi(purser.ApiClient(purser.Configuration(host=API)))
who = purser.Credentials(email=f"ogp-{fresh()}@example.com", password="correct horse battery")
signed_up = anyone.signup_with_http_info(who)
assert signed_up.data.user.email == who.email
assert signed_up.headers
cookie = signed_up.headers["Set-Cookie"].split(";")[0].removeprefix("purser_session=")
person = purser.ApiClient(purser.Configuration(host=API, api_key={"session": cookie}))
purser.WorkspacesApi(person).create_workspace(purser.NewWorkspace(name="Python Ltd"))
assert purser.CurrenciesApi(person).start_currency_onboarding().kyb_status == "approved"
receiver = Receiver()
endpoint = purser.WebhooksApi(person).create_webhook_endpoint(
    purser.NewWebhookEndpoint(url=receiver.url, events=[purser.WebhookEvent.CHECKOUT_DOT_SESSION_DOT_COMPLETED])
)
scopes = [purser.Scope(s) for s in (
    "read:treasury", "write:treasury", "write:counterparties", "write:payouts", "read:cards", "write:cards", "write:checkout")]
secret = purser.KeysApi(person).create_key(purser.NewApiKey(label="flow", scopes=scopes)).secret
client = purser.ApiClient(purser.Configuration(host=API, access_token=secret))
treasury, cards, checkout = purser.TreasuryApi(client), purser.CardsApi(client), purser.CheckoutApi(client)

# Money in, and a card that spends it.
treasury.create_deposit(
    purser.NewDeposit(purser.NewBankDeposit(source="bank_fiat", rail="fednow", amountUsdCents=100_000)), idempotency_key=fresh()
)
until(lambda: treasury.get_treasury().balances[0].available_cents, lambda cents: cents == 100_000)
card = cards.mint_card(purser.NewCard(
    holderKind="agent", holderLabel="flow", monthlyLimitUsdCents=50_000, perTxnLimitUsdCents=20_000, allowedMccs=["5812"])).card
swipe(card.partner_card_token, 1250)
seen = until(lambda: cards.list_authorizations(card_id=card.id).data, len)
assert seen[0].held_cents == 1250 and seen[0].checked and seen[0].checked.limit_cents == 50_000

# Money out.
recipient = treasury.create_counterparty(
    idempotency_key=fresh(),
    new_counterparty=purser.NewCounterparty(purser.NewUsCounterparty(
        kind="us", name="Bob", routingNumber="021000021", accountNumber="12345678", accountType="checking"))).counterparty
order = purser.NewPayout(rail=purser.PayoutRail.ACH, counterpartyId=recipient.id, amountCents=2_000, description="Rent")
payout = treasury.create_payout(fresh(), order).payout
until(lambda: treasury.get_payout(payout.id).payout.status, lambda status: status == "settled")

# A paid link, and the webhook that tells of it.
link = checkout.create_checkout_session(
    purser.NewCheckoutSession(amountUsdCents=1_000, successUrl="https://example.com/thanks")
).session
checkout.select_checkout_pair(link.id, purser.CheckoutPick(asset=purser.CheckoutAsset.USDC, chain=purser.CheckoutChain.BASE))
checkout.simulate_checkout_payment(link.id)
kind, body = receiver.event(endpoint.secret)
assert kind == "checkout.session.completed" and json.loads(body)["id"] == link.id

# Refusals carry the type ApiError.
order.amount_cents = 90_000_000
assert refusal(lambda: treasury.create_payout(fresh(), order), 422) == "limit_exceeded"
assert refusal(lambda: cards.get_card("card_00000000000000000000000000"), 404) == "not_found"
print("openapi-generator, python: sign-up, swipe, payout, webhook and refusals")
