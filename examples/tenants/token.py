#!/usr/bin/env python3
"""Prints a token of this example: token.py USER TENANT [TEAM]."""

import base64
import hashlib
import hmac
import json
import sys
import time
from pathlib import Path


def part(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: token.py USER TENANT [TEAM]")
    claims = {"sub": sys.argv[1], "tenant": sys.argv[2], "exp": int(time.time()) + 3600}
    if len(sys.argv) == 4:
        claims["team"] = {"id": sys.argv[3]}
    parts = [{"alg": "HS256", "typ": "JWT"}, claims]
    text = ".".join(part(json.dumps(value).encode()) for value in parts)
    secret = (Path(__file__).parent / "token.key").read_bytes().rstrip()
    print(f"{text}.{part(hmac.digest(secret, text.encode(), hashlib.sha256))}")


main()
