"""From sign-up to a webhook, with the client that openapi-python-client makes."""
import json
from typing import TypeVar

from purser_client import AuthenticatedClient, Client, models
from purser_client.api.cards import get_card, list_authorizations, mint_card
from purser_client.api.checkout import create_checkout_session, select_checkout_pair, simulate_checkout_payment
from purser_client.api.currencies import start_currency_onboarding
from purser_client.api.dashboard import signup
from purser_client.api.keys import create_key
from purser_client.api.treasury import create_counterparty, create_deposit, create_payout, get_payout, get_treasury
from purser_client.api.webhooks import create_webhook_endpoint
from purser_client.api.workspaces import create_workspace
from receiver import Receiver
from steps import API, fresh, swipe, until

T = TypeVar("T")


def ok(answer: T | models.ApiError | None) -> T:
    """The answer of an operation that succeeded."""
    assert answer is not None and not isinstance(answer, models.ApiError), answer
    return answer


# A person: the cookie of the session is the credential.
who = models.Credentials(email=f"opc-{fresh()}@example.com", password="correct horse battery")
signed_up = signup.sync_detailed(client=Client(base_url=API, raise_on_unexpected_status=True), body=who)
assert ok(signed_up.parsed).user.email == who.email
person = AuthenticatedClient(base_url=API, raise_on_unexpected_status=True, auth_header_name="Cookie", prefix="",
                             token=signed_up.headers["Set-Cookie"].split(";")[0])
workspace = ok(create_workspace.sync(client=person, body=models.NewWorkspace(name="Python Ltd"))).workspace
assert ok(start_currency_onboarding.sync(client=person)).kyb_status == "approved"
receiver = Receiver()
endpoint = ok(create_webhook_endpoint.sync(
    client=person, body=models.NewWebhookEndpoint(url=receiver.url, events=[models.WebhookEvent.CHECKOUT_SESSION_COMPLETED])
))
scopes = [models.Scope(s) for s in (
    "read:treasury", "write:treasury", "write:counterparties", "write:payouts", "read:cards", "write:cards", "write:checkout")]
secret = ok(create_key.sync(client=person, body=models.NewApiKey(label="flow", scopes=scopes))).secret
client = AuthenticatedClient(base_url=API, token=secret, raise_on_unexpected_status=True)

# Money in, and a card that spends it.
deposit = models.NewBankDeposit(source="bank_fiat", rail=models.NewBankDepositRail.FEDNOW, amount_usd_cents=100_000)
ok(create_deposit.sync(client=client, body=deposit, idempotency_key=fresh()))
until(lambda: ok(get_treasury.sync(client=client)).balances[0].available_cents, lambda cents: cents == 100_000)
card = ok(mint_card.sync(client=client, body=models.NewCard(
    holder_kind=models.NewCardHolderKind.AGENT, holder_label="flow", monthly_limit_usd_cents=50_000,
    per_txn_limit_usd_cents=20_000, allowed_mccs=["5812"]))).card
swipe(card.partner_card_token, 1250)
seen = until(lambda: ok(list_authorizations.sync(client=client, card_id=card.id)).data, len)
assert seen[0].held_cents == 1250 and seen[0].checked and seen[0].checked.limit_cents == 50_000

# Money out.
recipient = ok(create_counterparty.sync(client=client, idempotency_key=fresh(), body=models.NewUsCounterparty(
    kind=models.NewUsCounterpartyKindType1.US, name="Bob", routing_number="021000021", account_number="12345678",
    account_type=models.NewUsCounterpartyAccountType.CHECKING))).counterparty
order = models.NewPayout(
    rail=models.PayoutRail.ACH, counterparty_id=recipient.id, amount_cents=2_000, description="Rent")
payout = ok(create_payout.sync(client=client, idempotency_key=fresh(), body=order)).payout
until(lambda: ok(get_payout.sync(client=client, id=payout.id)).payout.status, lambda status: status == "settled")

# A paid link, and the webhook that tells of it.
link = ok(create_checkout_session.sync(client=client, body=models.NewCheckoutSession(
    amount_usd_cents=1_000, success_url="https://example.com/thanks"))).session
select_checkout_pair.sync(client=client, id=link.id, body=models.CheckoutPick(
    asset=models.CheckoutAsset.USDC, chain=models.CheckoutChain.BASE))
simulate_checkout_payment.sync(client=client, id=link.id)
kind, body = receiver.event(endpoint.secret)
assert kind == "checkout.session.completed" and json.loads(body)["id"] == link.id

# Refusals are the type ApiError.
order.amount_cents = 90_000_000
refused = create_payout.sync_detailed(client=client, idempotency_key=fresh(), body=order)
assert refused.status_code == 422 and isinstance(refused.parsed, models.ApiError) and refused.parsed.error == "limit_exceeded", refused.parsed
missing = get_card.sync_detailed(client=client, id="card_00000000000000000000000000")
assert missing.status_code == 404 and isinstance(missing.parsed, models.ApiError) and missing.parsed.error == "not_found"
print("openapi-python-client: sign-up, swipe, payout, webhook and refusals")
