"""What .ci/doors runs: examples/doors with the real proxies. Each check is one line.

Clients have addresses of their own in 127.0.0.0/8, so each check starts with full budgets. Only 127.0.0.1 is a trusted proxy.
"""

import contextlib
import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DOORS = Path(__file__).resolve().parent.parent / "examples" / "doors"
LIMIT = 100
TRIPLE = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
# Below this time before a window's end, checks wait for the next window.
MARGIN = 90

# Name: the port in the example, and the command.
PROXIES = {
    "envoy-rls": (8101, ["envoy", "--base-id", "{id}", "--concurrency", "2", "-l", "error", "-c", "envoy-rls.yaml"]),
    "envoy-ext-authz": (8102, ["envoy", "--base-id", "{id}", "--concurrency", "2", "-l", "error", "-c", "envoy-ext-authz.yaml"]),
    "nginx": (8103, ["nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr"]),
    "traefik": (8104, ["traefik", "--configFile=traefik.yaml"]),
    "caddy": (8105, ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"]),
}
# The rate-limit headers that the client of each proxy gets: on an admission, and on a refusal.
HEADERS = {
    "envoy-rls": (TRIPLE, TRIPLE | {"retry-after"}),
    "envoy-ext-authz": (TRIPLE, TRIPLE | {"retry-after"}),
    "nginx": (TRIPLE, TRIPLE | {"retry-after"}),
    "traefik": (set(), TRIPLE | {"retry-after"}),
    "caddy": (TRIPLE, TRIPLE | {"retry-after"}),
}
# The status for a client while tidegate's port is closed, and while tidegate is frozen.
UNREACHABLE = {
    "envoy-rls": (200, 200),
    "envoy-ext-authz": (503, 503),
    "nginx": (500, 500),
    "traefik": (500, 500),
    "caddy": (502, 504),
}
# The other choice that the examples name in comments: the status while tidegate's port is closed.
OTHER_CHOICE = {"envoy-rls": 500, "envoy-ext-authz": 200, "nginx": 200}
OTHER_WORDS = [
    ("failure_mode_deny: false", "failure_mode_deny: true"),
    ("failure_mode_allow: false", "failure_mode_allow: true"),
    ("# error_page 502 504", "error_page 502 504"),
    ("# location @unlimited", "location @unlimited"),
]
# Traefik's time for an answer. It cannot be set.
PATIENCE = {"traefik": 32}

addresses = (f"127.0.0.{number}" for number in itertools.count(10))


class Upstream(BaseHTTPRequestHandler):
    """Answers 200, and counts the requests of each client in X-Forwarded-For."""

    protocol_version = "HTTP/1.1"
    requests = Counter()
    lock = threading.Lock()

    def do_GET(self):
        with self.lock:
            self.requests[self.headers.get("X-Forwarded-For", "").split(",")[-1].strip()] += 1
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """Has room for many connections at once."""

    request_queue_size = 1024
    daemon_threads = True


def free_port():
    """Returns a free port below the range of outgoing connections, so that none of these takes it before a proxy does."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))
            return port


def until(condition, what, seconds=30):
    """Waits until the condition holds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.05)


def listens(port):
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


class Doors:
    """The gateway of the example and the five proxies, on free ports."""

    def __init__(self, binary, folder, redis=None, is_other=False):
        self.binary, self.folder, self.redis, self.is_other = Path(binary).resolve(), Path(folder), redis, is_other
        self.server = Server(("127.0.0.1", 0), Upstream)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.upstream = self.server.server_address[1]
        self.listen, self.admin, self.decisions = free_port(), free_port(), free_port()
        self.ports = {name: free_port() for name in PROXIES}
        self.processes = {}
        for file in DOORS.iterdir():
            if file.is_file():
                (self.folder / file.name).write_text(self.adapted(file.name, file.read_text()))
        (self.folder / "gateway.yaml").write_text(self.gateway((DOORS / "gateway.yaml").read_text()))
        try:
            self.start_all()
        except BaseException:
            self.stop()
            raise

    def start_all(self):
        self.start_gateway()
        for number, (name, (_, command)) in enumerate(PROXIES.items()):
            # Envoy's ID must be unique on the machine.
            words = [word.format(id=os.getpid() % 10_000 * 10 + number) for word in command]
            self.start(name, words)
        for name, port in self.ports.items():
            # Traefik listens before it has its routes.
            until(lambda port=port: get(port, "127.0.0.9")[0] == 200, f"{name} forwards requests")

    def adapted(self, name, text):
        """Sets the ports, and longer deadlines. On a busy machine an answer may be late, and the count then changes."""
        ports = {8090: self.decisions, 9000: self.upstream} | {PROXIES[peer][0]: port for peer, port in self.ports.items()}
        text = re.sub(r"\b(8090|9000|810\d)\b", lambda match: str(ports[int(match[0])]), text)
        for before, after in OTHER_WORDS if self.is_other else []:
            text = text.replace(before, after)
        if name.endswith((".conf", "Caddyfile")):
            return text.replace("250ms", "5s")
        if name.startswith("envoy-") and name != "envoy-gateway.yaml":
            return text.replace("0.02s", "5s").replace("0.25s", "5s")
        return text

    def gateway(self, text):
        """Adds a route with a limit that is `closed` without Redis."""
        text = text.replace("limits:\n  per-address:", "limits:\n  strict: { fixed_window: { limit: 100, window: 1h }, per: [ip], on_failure: closed }\n  per-address:")
        text = text.replace("routes:\n", 'routes:\n  - { name: strict, path: /strict, upstream: "http://${UPSTREAM}", limits: [strict] }\n')
        if self.redis:
            store = f'store: {{ redis: {{ url: "redis://127.0.0.1:{self.redis}", timeout: 1s, on_failure: local }} }}\nsecret: {"s" * 32}\n'
            text = text.replace("store: memory\n", store)
        return text

    def start(self, name, words, environment=None):
        log = (self.folder / f"{name}.log").open("ab")
        homes = {"XDG_CONFIG_HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder)}
        environment = {**os.environ, **homes, **(environment or {})}
        # A session of its own: nginx has workers, which outlive a killed master.
        self.processes[name] = subprocess.Popen(
            words, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )

    def start_gateway(self):
        environment = {
            "TIDEGATE_LISTEN": f"127.0.0.1:{self.listen}",
            "TIDEGATE_ADMIN": f"127.0.0.1:{self.admin}",
            "TIDEGATE_DECISIONS": f"127.0.0.1:{self.decisions}",
            "UPSTREAM": f"127.0.0.1:{self.upstream}",
        }
        self.start("tidegate", [str(self.binary), "run", "-c", "gateway.yaml"], environment)
        url = f"http://127.0.0.1:{self.admin}/readyz"
        until(lambda: urllib.request.urlopen(url, timeout=1).status == 200, "tidegate is ready")
        until(lambda: listens(self.decisions), "tidegate listens for decisions")

    def stop_gateway(self):
        self.processes["tidegate"].kill()
        self.processes["tidegate"].wait()

    def stop(self):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.server.shutdown()

    def port(self, name):
        return self.listen if name == "tidegate" else self.ports[name]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")


def get(port, address, path="/orders", headers=None, timeout=10):
    """Sends one request from this address. Returns the status, and the headers as a list of pairs."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout, source_address=(address, 0))
    try:
        # putrequest leaves the path as it is, dot segments included.
        connection.putrequest("GET", path)
        for key, value in (headers or {}).items():
            connection.putheader(key, value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        return answer.status, [(key.lower(), value) for key, value in answer.getheaders()]
    finally:
        connection.close()


def flood(targets, address, requests=400, connections=64, path="/orders"):
    """Sends requests to each port, on kept connections that work at the same time. Returns how often each status came."""
    steady()
    statuses, gate = Counter(), threading.Barrier(connections * len(targets))

    def work(port, share):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30, source_address=(address, 0))
        connection.connect()
        gate.wait()
        counts = Counter()
        for _ in range(share):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            counts[answer.status] += 1
        connection.close()
        return counts

    shares = [requests // connections + (number < requests % connections) for number in range(connections)]
    with ThreadPoolExecutor(connections * len(targets)) as pool:
        for counts in pool.map(lambda job: work(*job), [(port, share) for port in targets for share in shares]):
            statuses += counts
    return statuses


def steady():
    """Waits for the next window if this one ends soon."""
    left = 3600 - time.time() % 3600
    if left < MARGIN:
        print(f"waiting {left:.0f} s for the next window", flush=True)
        time.sleep(left + 0.5)


def rate_limit_headers(headers):
    found = [key for key, _ in headers if key in TRIPLE | {"retry-after"}]
    assert len(found) == len(set(found)), headers
    return set(found)


def exactly(doors):
    """exactly 100 of 400 requests on 64 connections pass"""
    for name in [*PROXIES, "tidegate"]:
        address = next(addresses)
        statuses = flood([doors.port(name)], address)
        assert statuses == {200: LIMIT, 429: 300}, (name, statuses)
        assert Upstream.requests[address] == LIMIT, (name, address, Upstream.requests)
        yield name


def headers(doors):
    """the rate-limit headers arrive where the proxy can carry them, each once"""
    for name, (on_success, on_refusal) in HEADERS.items():
        address = next(addresses)
        steady()
        status, found = get(doors.port(name), address)
        assert status == 200 and rate_limit_headers(found) == on_success, (name, status, found)
        if on_success:
            values = dict(found)
            assert (values["x-ratelimit-limit"], values["x-ratelimit-remaining"]) == ("100", "99"), (name, found)
        flood([doors.port(name)], address, requests=100, connections=10)
        status, found = get(doors.port(name), address)
        assert status == 429 and rate_limit_headers(found) == on_refusal, (name, status, found)
        values = dict(found)
        assert values["x-ratelimit-remaining"] == "0" and 0 < int(values["retry-after"]) <= 3600, (name, found)
        yield name


def keys(doors):
    """an API key has a budget of its own behind /v1/ask, and a wrong key is 401"""
    for name in PROXIES:
        if name == "envoy-rls":
            continue  # its descriptors have no key
        status, found = get(doors.port(name), next(addresses), "/keys/1", {"X-API-Key": "wrong"})
        assert status == 401, (name, status, found)
        status, found = get(doors.port(name), next(addresses), "/keys/1", {"X-API-Key": "demo-key"})
        assert status == 200, (name, status, found)
        yield name


def inventions(doors):
    """a client cannot get another budget by headers or by its path"""
    for name in PROXIES:
        address = next(addresses)
        statuses = flood([doors.port(name)], address, requests=LIMIT, connections=10)
        assert statuses == {200: LIMIT}, (name, statuses)
        for extra in INVENTIONS:
            status, found = get(doors.port(name), address, headers=extra)
            assert status in (400, 429), (name, extra, status, found)
        # Behind the prefix of ext_authz these paths would lead to other paths of the listener.
        for path in ("/../check?limit=per-address&client=ip:192.0.2.1", "/%2e%2e/check?limit=per-address&client=ip:192.0.2.1", "/../openapi.json", "/?refuse=403"):
            status, found = get(doors.port(name), address, path)
            assert status in (400, 429), (name, path, status, found)
        yield name


INVENTIONS = [
    {"X-Forwarded-For": "203.0.113.7"},
    {"X-Forwarded-For": "203.0.113.7, 198.51.100.7"},
    {"Forwarded": "for=203.0.113.7"},
    {"X-Real-IP": "203.0.113.7"},
    {"X-Envoy-External-Address": "203.0.113.7"},
    {"X-Forwarded-Uri": "/keys/1"},
    {"X-Original-Uri": "/keys/1"},
    {"X-Original-Url": "/keys/1"},
    {"X-Forwarded-Method": "OPTIONS"},
    {"Connection": "close, X-Forwarded-For, X-Forwarded-Uri"},
    {"Origin": "https://pages.example"},
]


def metadata(doors):
    """Envoy's access log names the limit that refused"""
    address = next(addresses)
    flood([doors.port("envoy-rls")], address, requests=101, connections=10, path="/named")
    refused = []

    def appears():
        lines = [json.loads(line) for line in doors.log("envoy-rls").splitlines() if '"/named"' in line]
        refused[:] = [line for line in lines if line["status"] == 429]
        return refused

    # Envoy writes its log every ten seconds.
    until(appears, "a refusal in Envoy's log")
    assert len(refused) == 1 and refused[0]["limit"] == "per-address" and refused[0]["tidegate_id"], refused
    yield "envoy-rls"


def unreachable(doors):
    """with tidegate killed, and with tidegate frozen, each proxy does what docs/doors.md has; then each asks again"""

    def statuses():
        address = next(addresses)
        with ThreadPoolExecutor(len(PROXIES)) as pool:

            def one(name):
                begin = time.monotonic()
                status, _ = get(doors.port(name), address, timeout=60)
                took = time.monotonic() - begin
                assert took < PATIENCE.get(name, 8), (name, took)
                return name, status

            return dict(pool.map(one, PROXIES))

    doors.stop_gateway()
    assert statuses() == {name: killed for name, (killed, _) in UNREACHABLE.items()}, statuses()
    doors.start_gateway()
    time.sleep(1)
    assert set(statuses().values()) == {200}, statuses()
    doors.processes["tidegate"].send_signal(signal.SIGSTOP)
    found = statuses()
    doors.processes["tidegate"].send_signal(signal.SIGCONT)
    assert found == {name: frozen for name, (_, frozen) in UNREACHABLE.items()}, found
    until(lambda: set(statuses().values()) == {200}, "each proxy gets answers again")
    for name in PROXIES:
        address = next(addresses)
        assert flood([doors.port(name)], address) == {200: LIMIT, 429: 300}, name
    yield "all"


def other_choice(doors):
    """with tidegate killed, Envoy and nginx make the other choice if the configuration has it"""
    for name in OTHER_CHOICE:
        assert get(doors.port(name), next(addresses))[0] == 200, name
    doors.stop_gateway()
    for name, choice in OTHER_CHOICE.items():
        status, found = get(doors.port(name), next(addresses))
        assert status == choice, (name, status, found)
        yield name


def together(doors):
    """all proxies and tidegate's own listener, on one Redis: exactly 100 of 2,400 requests on 384 connections pass"""
    address = next(addresses)
    targets = [doors.port(name) for name in [*PROXIES, "tidegate"]]
    statuses = flood(targets, address)
    assert statuses == {200: LIMIT, 429: 2400 - LIMIT}, statuses
    assert Upstream.requests[address] == LIMIT, Upstream.requests
    yield "all"


def without_redis(doors):
    """with Redis frozen, then killed: `local` admits exactly 100, and `closed` refuses with 503"""
    targets = [doors.port(name) for name in [*PROXIES, "tidegate"]]
    redis = doors.processes["redis"]
    for name, signum in (("frozen", signal.SIGSTOP), ("killed", signal.SIGKILL)):
        redis.send_signal(signum)
        time.sleep(0.5)
        statuses = flood(targets, next(addresses))
        assert statuses == {200: LIMIT, 429: 2400 - LIMIT}, (name, statuses)
        for peer in [*PROXIES, "tidegate"]:
            if peer == "envoy-rls":
                continue  # its descriptors lead to no limit that is closed
            status, found = get(doors.port(peer), next(addresses), "/strict")
            # Envoy takes a 503 for a failed call, and drops its headers.
            carries = {"retry-after"} if peer != "envoy-ext-authz" else set()
            assert status == 503 and rate_limit_headers(found) == carries, (name, peer, status, found)
        if signum == signal.SIGSTOP:
            redis.send_signal(signal.SIGCONT)
            # A request shows the gateway that Redis answers again. Requests that run at that time are decided without Redis.
            for _ in range(15):
                get(doors.listen, next(addresses))
                time.sleep(0.2)
            statuses = flood(targets, next(addresses))
            assert statuses == {200: LIMIT, 429: 2400 - LIMIT}, ("back", statuses)
        yield name


def start_redis(port, folder):
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until(lambda: listens(port), "Redis listens")
    return process


def run(binary, words, checks, redis=False, is_other=False):
    checks = [check for check in checks if not words or any(word in check.__name__ for word in words)]
    if not checks:
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        store = free_port() if redis else None
        process = start_redis(store, folder) if redis else None
        doors = None
        try:
            doors = Doors(binary, folder, store, is_other)
            if redis:
                doors.processes["redis"] = process
            for check in checks:
                for name in check(doors):
                    print(f"ok: {name}: {check.__doc__}", flush=True)
        except BaseException:
            for log in sorted(Path(folder).glob("*.log")):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
            raise
        finally:
            if doors:
                doors.stop()
            elif process:
                process.kill()


if __name__ == "__main__":
    binary, *words = sys.argv[1:]
    run(binary, words, [exactly, headers, keys, inventions, metadata, unreachable])
    run(binary, words, [other_choice], is_other=True)
    run(binary, words, [together, without_redis], redis=True)
