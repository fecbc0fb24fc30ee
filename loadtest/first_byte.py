#!/usr/bin/env python3
"""When the first byte of a body comes, with a limit that reads the body and with limits that do not.

    loadtest/first_byte.py --binary target/dist/tidegate

Three routes lead to one API. The limit of `plain` has a fixed cost. The cost of `header` is in the answer's head, and of `body` in the
body. Requests go to them in turn, in random order, on one connection. The API sends 16 KB of JSON, the same with gzip, or
events: one with the head, two more 2 ms later. Times are from the request to the first byte of the body, and to the last.

A second table has the bodies of requests. The limit of `reserve` reads `max_tokens` in the body before it decides. The client sends the
head and 2 KB, and the rest 5 ms later, with the number. Times are from the moment at which the client sends the part that is awaited to
the first byte of the body at the API: the part with the number for `reserve`, and the first part for `plain`.

The gateway has a processor of its own, where there are two. Its work after it has sent a part would otherwise take time from this
program, which would count as a later byte.
"""

import argparse
import contextlib
import gzip
import json
import os
import queue
import random
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROUTES = ["plain", "header", "body"]
KINDS = ["events", "json", "gzip"]
PROCESSORS = os.sched_getaffinity(0)
FIRST = {min(PROCESSORS)}
OTHERS = PROCESSORS - FIRST or FIRST
PAUSE = 0.002
BEFORE_NUMBER = 0.005
EVENT = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hello"}}],"usage":null}\n\n'
LAST = b'data: {"choices":[],"usage":{"total_tokens":1}}\n\ndata: [DONE]\n\n'
TEXT = " ".join(str(random.random()) for _ in range(850))
JSON = json.dumps({"choices": [{"message": {"content": TEXT}}], "usage": {"total_tokens": 1}}).encode()
GZIP = gzip.compress(JSON)
PARTS = [b'{"prompt":"' + 2_000 * b"x" + b'",', b'"max_tokens":500,"model":"small"}']
# The times at which the API got the first bytes of requests' bodies.
ARRIVED = queue.SimpleQueue()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the gateway; a build with `--profile dist`, or it says little")
    parser.add_argument("--requests", type=int, default=3000, help="to each route, of each kind")
    options = parser.parse_args()
    with running(options.binary) as (port, admin):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print("| body | limit | first byte: median | p99 | last byte: median | p99 |")
        print("|---|---|---|---|---|---|")
        for kind in KINDS:
            took = {route: [] for route in ROUTES}
            for _ in range(options.requests):
                for route in random.sample(ROUTES, len(ROUTES)):
                    took[route].append(ask(client, f"/{route}/{kind}"))
            for route in ROUTES:
                # The first requests find caches cold.
                columns = zip(*took[route][options.requests // 20 :])
                figures = [f"{at(column, share):.0f} us" for column in columns for share in (0.5, 0.99)]
                print("|", " | ".join([kind, route, *figures]), "|", flush=True)
        requests(client, options)
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics").read().decode()
        # Every body was read, and no other body was.
        expected = f'tidegate_body_costs_total{{route="body",result="read"}} {len(KINDS) * options.requests}'
        assert expected in metrics, "not every body was read"


def requests(client, options):
    """Measures the bodies of requests."""
    print("\n| body of the request | limit | first byte at the API: median | p90 | p99 |")
    print("|---|---|---|---|---|")
    took = {"plain": [], "reserve": []}
    for _ in range(options.requests // 3):
        for route in random.sample(sorted(took), len(took)):
            took[route].append(upload(client, route))
    for route, times in took.items():
        times = times[options.requests // 60 :]
        figures = [f"{at(times, share):.0f} us" for share in (0.5, 0.9, 0.99)]
        print("|", " | ".join(["JSON, 2 KB", route, *figures]), "|", flush=True)


def upload(client, route):
    """Sends one request with a body; returns the microseconds to its first byte at the API."""
    client.sendall(f"POST /{route}/upload HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n".encode())
    client.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
    time.sleep(BEFORE_NUMBER)
    first, second = PARTS
    start = time.perf_counter()
    client.sendall(chunk(first))
    time.sleep(BEFORE_NUMBER)
    if route == "reserve":
        assert ARRIVED.empty(), "the body was sent on before the number came"
        start = time.perf_counter()
    client.sendall(chunk(second) + chunk(b""))
    took = (ARRIVED.get(timeout=5) - start) * 1e6
    answer = client.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return took


def at(values, share):
    return statistics.median(values) if share == 0.5 else sorted(values)[int(len(values) * share)]


def ask(client, path):
    """Sends one request; returns the microseconds to the first byte of the body, and to the last."""
    start = time.perf_counter()
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: api\r\nAccept-Encoding: gzip\r\n\r\n".encode())
    answer, first, end = b"", None, None
    while True:
        part = client.recv(1 << 18)
        now = (time.perf_counter() - start) * 1e6
        assert part, "the gateway closed the connection"
        answer += part
        head, found, body = answer.partition(b"\r\n\r\n")
        if not found or not body:
            continue
        first = first or now
        if end is None:
            assert head.startswith(b"HTTP/1.1 200"), head
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            end = int(length[0].split(b":")[1]) if length else 0
        if len(body) == end or not end and body.endswith(b"0\r\n\r\n"):
            return first, now


def serve(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = client.makefile("rb")
    while line := lines.readline():
        while lines.readline() not in (b"\r\n", b""):
            pass
        if line.startswith(b"POST"):
            while size := int(lines.readline(), 16):
                lines.read(1)
                if size > 1_000:
                    ARRIVED.put(time.perf_counter())
                lines.read(size + 1)
            lines.readline()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            continue
        if b"/events" in line:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(EVENT))
            time.sleep(PAUSE)
            client.sendall(chunk(EVENT) + chunk(LAST) + chunk(b""))
            continue
        body, encoding = (GZIP, b"Content-Encoding: gzip\r\n") if b"/gzip" in line else (JSON, b"")
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (encoding, len(body), body))


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


@contextlib.contextmanager
def running(binary):
    """Runs the API and the gateway; yields the ports of the gateway."""
    # For this thread, and for threads that it starts.
    os.sched_setaffinity(0, OTHERS)
    api = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            threading.Thread(target=serve, args=(api.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    port, admin = free(), free()
    window, url = "fixed_window: { limit: 1000000, window: 31d }", f"http://127.0.0.1:{api.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="tidegate-first-byte-") as folder:
        path = Path(folder, "gateway.yaml")
        path.write_text(f"""
listen: 127.0.0.1:{port}
admin: 127.0.0.1:{admin}
log: {{ access: false }}
limits:
  plain: {{ {window} }}
  header: {{ {window}, cost: {{ response_header: X-Cost, reserve: 2 }} }}
  body: {{ {window}, cost: {{ response_json: usage.total_tokens, reserve: 2 }} }}
  reserve: {{ {window}, cost: {{ response_header: X-Cost, reserve: {{ request_json: max_tokens, default: 2, max: 1000 }} }} }}
routes:
""" + "".join(f"  - {{ name: {route}, path: /{route}/**, upstream: '{url}', limits: [{route}] }}\n" for route in [*ROUTES, "reserve"]))
        os.sched_setaffinity(0, FIRST)
        gateway = subprocess.Popen([binary, "run", "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.sched_setaffinity(0, OTHERS)
        try:
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert gateway.poll() is None, "the gateway does not start"
                time.sleep(0.05)
            yield port, admin
        finally:
            gateway.terminate()
            gateway.wait()


def free():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


if __name__ == "__main__":
    main()
