"""Steps that the flows in Python take without a generated client."""
import json
import os
import time
import urllib.request
import uuid

API = os.environ["API_URL"]
SECONDS = 30


def fresh():
    """Returns a new id."""
    return str(uuid.uuid4())


def until(read, done):
    """Calls read until done accepts its answer, for SECONDS at most, and returns that answer."""
    end = time.monotonic() + SECONDS
    while not done(answer := read()):
        assert time.monotonic() < end, answer
        time.sleep(0.05)
    return answer


def swipe(card_token, cents):
    """Sends an authorization as the card network does, and expects an approval."""
    body = {"id": fresh(), "cardToken": card_token, "amountCents": cents, "currency": "USD",
            "merchant": {"name": "Cafe Aroma", "mcc": "5812"}}
    request = urllib.request.Request(
        os.environ["NETWORK_URL"] + "/v1/authorizations", data=json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + os.environ["NETWORK_SECRET"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        decision = json.load(answer)
    assert decision["decision"] == "approved", decision
