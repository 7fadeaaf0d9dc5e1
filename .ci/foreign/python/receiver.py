"""A receiver of webhooks on a free loopback port, for the flows in Python."""
import hashlib
import hmac
import http.server
import queue
import threading

from steps import SECONDS


class Receiver:
    def __init__(self):
        received = self.received = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.put((self.headers, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}/events"

    def event(self, secret):
        """Returns the type and the body of the next delivery, once its signature is that of the secret."""
        headers, body = self.received.get(timeout=SECONDS)
        parts = dict(part.split("=", 1) for part in headers["service-signature"].split(","))
        signed = hmac.new(secret.encode(), f"{parts['t']}.".encode() + body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(signed, parts["v1"]), "the signature of the webhook"
        return headers["webhook-event"], body
