# Signs a payment intent and submits it: python3 intent.py <url> <api key> <agent id> <private key file> <intent id>
import base64, hashlib, json, sys, time, urllib.request
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

url, api_key, agent_id, key_file, intent_id = sys.argv[1:]
key = load_pem_private_key(open(key_file, "rb").read(), None)
spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
b64 = lambda b: base64.urlsafe_b64encode(b).decode().rstrip("=")

now = int(time.time())
intent = {"agent_id": agent_id, "intent_id": intent_id, "iat": now, "exp": now + 300, "protocol": "TAP",
          "merchant": {"name": "Bücher & Söhne", "mcc": "5942"}, "amount": {"currency": "USD", "cents": 1999}}
# RFC 8785, for names in ASCII and whole numbers:
canonical = json.dumps(intent, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
body = {"intent": intent, "signature": b64(key.sign(canonical)), "key_id": b64(hashlib.sha256(spki).digest())}

request = urllib.request.Request(f"{url}/api/agents/{agent_id}/intents", json.dumps(body).encode(),
                                 {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"})
try:
    print(urllib.request.urlopen(request).read().decode())
except urllib.error.HTTPError as refusal:
    sys.exit(refusal.read().decode())
