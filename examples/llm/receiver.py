#!/usr/bin/env python3
"""Receives the gateway's budget events, verifies their signatures, and prints them.

    python3 examples/llm/receiver.py [port]
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ.get("WEBHOOK_SECRET", "whsec_b25seSBmb3IgdGhlIGV4YW1wbGUsIG5vdCBzZWNyZXQ=")
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))
# A message that is older, in seconds, may be a copy that somebody sends again.
MAX_AGE = 300
seen = set()


def is_valid(headers, body):
    """Whether the signature is the gateway's, and the message is new enough."""
    message, sent = headers["webhook-id"], headers["webhook-timestamp"]
    signed = f"{message}.{sent}.".encode() + body
    expected = base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256)).decode()
    signatures = headers["webhook-signature"].split()
    is_signed = any(hmac.compare_digest(one, f"v1,{expected}") for one in signatures)
    return is_signed and abs(time.time() - int(sent)) < MAX_AGE


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not is_valid(self.headers, body):
            self.send_error(401)
            return
        # The same message may come twice.
        if self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            data = json.loads(body)["data"]
            print(f"{data['client']} has used {data['used']} of {data['capacity']} {data['limit']}: {data['threshold']} %", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9100), Receiver)
    print("the receiver listens on port", server.server_address[1], file=sys.stderr, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
