"""Real lines of the JSON log, for .ci/logs.py: a gateway with all fields of the access log, and requests of many outcomes."""

import contextlib
import hashlib
import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

# The limits decide without Redis, because nothing listens on its port.
CONFIGURATION = """
listen: 127.0.0.1:%(listen)d
admin: 127.0.0.1:%(admin)d
decisions: { listen: "127.0.0.1:%(decisions)d" }
log: { format: json, access: { file: access.log, format: json, fields: [%(fields)s] } }
tracing: { otlp: "http://127.0.0.1:1" }
trusted_proxies: [127.0.0.1]
store: { redis: { url: "redis://127.0.0.1:1", timeout: 50ms, on_failure: local } }
secret: %(secret)s
clients:
  - api_key: { keys: [{ name: acme, hash: "sha256:%(hash)s", plan: gold }], unknown: reject }
  - ip: {}
deny: [192.0.2.1]
limits:
  few: { fixed_window: { limit: 2, window: 1h } }
  closed: { fixed_window: { limit: 2, window: 1h }, on_failure: closed }
  watched: { fixed_window: { limit: 1, window: 1h }, action: observe }
  dropped: { fixed_window: { limit: 1, window: 1h }, action: drop }
  queue: { leaky_bucket: { queue: 10, drain: 20/s } }
  spared: { fixed_window: { limit: 1, window: 1h }, exempt: [192.0.2.2] }
plans:
  gold: { few: { fixed_window: { limit: 5, window: 1h } } }
routes:
  - { path: /closed, upstream: "http://127.0.0.1:%(upstream)d", limits: [closed] }
  - { path: /watched, upstream: "http://127.0.0.1:%(upstream)d", limits: [watched] }
  - { path: /dropped, upstream: "http://127.0.0.1:%(upstream)d", limits: [dropped] }
  - { path: /queue, upstream: "http://127.0.0.1:%(upstream)d", limits: [queue] }
  - { path: /spared, upstream: "http://127.0.0.1:%(upstream)d", limits: [spared] }
  - { path: /gone, upstream: "http://127.0.0.1:1", limits: [few] }
  - { path: /cut, upstream: "http://127.0.0.1:%(upstream)d", limits: [watched] }
  - { path: /api, upstream: "http://127.0.0.1:%(upstream)d", limits: [few] }
"""
HEADERS = {"User-Agent": "a-check", "Referer": "http://127.0.0.1/page?query"}


def serve(server):
    """Answers each request with 200. The answer to /cut ends before its length."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                head = connection.recv(65536)
                length = 100 if head.startswith(b"GET /cut") else 2
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\nok" % length)


def ask(port, path, address="192.0.2.9", method="GET", body=None, **headers):
    """Sends a request as a trusted proxy, for the client at this address."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request(method, path, body, HEADERS | {"X-Forwarded-For": address} | headers)
        connection.getresponse().read()


def requests(ports):
    """Sends requests of many outcomes."""
    for path in ["/api"] * 3 + ["/closed", "/nowhere", "/cut", "/gone"] + ["/dropped", "/watched"] * 2:
        ask(ports["listen"], path)
    ask(ports["listen"], "/api", method="POST", body=b"body", **{"X-Api-Key": "acme-key"})
    ask(ports["listen"], "/api", "192.0.2.1")
    ask(ports["listen"], "/api", **{"X-Api-Key": "unlisted"})
    ask(ports["listen"], "/spared", "192.0.2.2")
    ask(ports["listen"], "/api", "2001:db8::1")
    for _ in range(3):
        ask(ports["listen"], "/queue")
    for _ in range(3):
        ask(ports["decisions"], "/v1/ask/api", "192.0.2.3")
    body = json.dumps({"checks": [{"limits": ["few"], "client": "api_key:acme"}]}).encode()
    ask(ports["decisions"], "/v1/check", method="POST", body=body, **{"Content-Type": "application/json"})


def until(condition, seconds=30):
    """Waits until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the gateway of the log check is not ready, or writes no line"
        time.sleep(0.05)


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def lost(port):
    """Returns the number of lines that the access log has lost."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return int(re.search(r"^tidegate_access_log_dropped_lines_total (\d+)$", answer.read().decode(), re.MULTILINE)[1])


def produce(binary, folder, fields):
    """Runs the gateway. Returns the lines of its access log and of its other log, as they were written."""
    upstream = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=[upstream], daemon=True).start()
    picked = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = dict(zip(["listen", "admin", "decisions"], (server.getsockname()[1] for server in picked)))
    for server in picked:
        server.close()
    values = {"fields": ", ".join(fields), "upstream": upstream.getsockname()[1], "secret": "s" * 32}
    values["hash"] = hashlib.sha256(b"acme-key").hexdigest()
    (folder / "gateway.yaml").write_text(CONFIGURATION % (ports | values))
    # Lines to /dev/full are lost. After the link leads to a file, the gateway writes how many.
    access = folder / "access.log"
    access.symlink_to("/dev/full")
    process = log = None
    try:
        log = (folder / "tidegate.log").open("wb")
        process = subprocess.Popen([binary, "run", "-c", "gateway.yaml"], cwd=folder, stderr=log)
        until(lambda: all(listens(port) for port in ports.values()))
        ask(ports["listen"], "/nowhere")
        until(lambda: lost(ports["admin"]))
        access.unlink()
        access.symlink_to("written.log")
        process.send_signal(signal.SIGUSR1)
        until((folder / "written.log").exists)
        requests(ports)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    finally:
        if process:
            process.kill()
            process.wait()
        log.close()
        upstream.close()
    return [(folder / name).read_text().splitlines() for name in ("written.log", "tidegate.log")]
