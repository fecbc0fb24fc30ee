#!/usr/bin/env python3
"""What a decision for another program costs, and whether it comes before Envoy's deadline.

    loadtest/doors.py --binary target/dist/tidegate            # CPU time per decision, by door
    loadtest/doors.py --binary target/dist/tidegate --deadline # behind Envoy, with a Redis that freezes

The gateway has one processor. Clients keep 64 connections. Each row is measured in each round, in turn, and the medians of the rounds are
printed, with the ratio to a refused request of the proxy. With --deadline, Envoy gets a steady rate of requests, and asks the gateway with its
own timeout of 20 ms; the program prints the time of the calls and the number of calls that Envoy gave up on. A higher rate than the machine
serves would measure Envoy's queue.
"""

import argparse
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median
from types import SimpleNamespace

from comparison import gateways, measure, programs
from comparison.gateways import pinned
from comparison.load import h2load_found
from kit.processes import Binaries, Processes, Trouble, free_port, until

HERE = Path(__file__).resolve().parent
CONNECTIONS = 64
SHOULD_RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
LIMITS = {
    "admits": {"token_bucket": {"capacity": 1_000_000, "refill": "1000000/s"}, "per": ["ip"]},
    "refuses": {"token_bucket": {"capacity": 1, "refill": "1/h"}, "per": ["ip"]},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the gateway; a build with `--profile dist`, or it says little")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4, help="of each row in each round")
    parser.add_argument("--rate", type=int, default=2000, help="requests a second, with --deadline")
    parser.add_argument("--deadline", action="store_true", help="measures calls of Envoy in place of CPU time")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-doors-"))
    run = SimpleNamespace(folder=folder, programs=programs.have(False), cores=measure.cores(), seconds=options.seconds)
    run.binaries = Binaries(options.binary, api=False)
    with Processes(folder, run.binaries) as processes:
        gateways.upstream(run, processes)
        if options.deadline:
            deadline(run, processes, options.rate)
        else:
            costs(run, processes, options.rounds)
    shutil.rmtree(folder)


def started(run, processes, redis_port=None, timeout="1s", on_failure="closed"):
    """Starts a gateway with a route and a listener for decisions; returns its process and both ports."""
    store = "memory"
    if redis_port:
        store = {"redis": {"url": f"redis://127.0.0.1:{redis_port}", "timeout": timeout, "on_failure": on_failure, "gateways": 1}}
    port, door, admin = free_port(), free_port(), free_port()
    upstream = f"http://127.0.0.1:{run.upstream_port}"
    domain = [{"match": {"kind": name, "remote_address": "*"}, "limits": [name]} for name in LIMITS]
    config = {
        "listen": f"127.0.0.1:{port}",
        "admin": f"127.0.0.1:{admin}",
        "trusted_proxies": ["127.0.0.1"],
        "store": store,
        "secret": "the measurement's own, of no use elsewhere",
        "limits": LIMITS,
        "routes": [{"path": f"/{name}", "upstream": upstream, "limits": [name]} for name in LIMITS],
        "decisions": {"listen": f"127.0.0.1:{door}", "rate_limit_service": {"domains": {"edge": domain}}},
        "log": {"access": False},
    }
    file = run.folder / f"doors-{port}.yaml"
    file.write_text(json.dumps(config, indent=1), encoding="utf-8")  # JSON is YAML
    process = processes.start("gateway", pinned(run.cores.one, [run.binaries.gateway, "run", "-c", file]))
    ready = f"http://127.0.0.1:{admin}/readyz"
    until(lambda: answered(ready), f"the gateway is not ready: see {process.log}")
    return process, port, door


def answered(url):
    try:
        return urllib.request.urlopen(url, timeout=2).status == 200
    except OSError:
        return False


def costs(run, processes, rounds):
    rows = {}
    for store in ("memory", "redis"):
        redis, redis_port = gateways.redis(run, processes) if store == "redis" else (None, None)
        gateway, port, door = started(run, processes, redis_port)
        for kind in LIMITS:
            verb = "admitted" if kind == "admits" else "refused"
            for name, decisions, load in (
                ("proxied request", 1, lambda kind=kind, port=port: wrk(run, f"http://127.0.0.1:{port}/{kind}")),
                ("/v1/ask", 1, lambda kind=kind, door=door: wrk(run, f"http://127.0.0.1:{door}/v1/ask/{kind}")),
                ("/v1/check", 1, lambda kind=kind, door=door: check(run, door, kind, 1)),
                ("/v1/check, 100 in a call", 100, lambda kind=kind, door=door: check(run, door, kind, 100)),
                ("RateLimitService", 1, lambda kind=kind, door=door: rate_limit(run, door, kind)),
            ):
                rows[f"{store}, {verb}: {name}"] = (gateway, redis, decisions, load, [], [])
    for _ in range(rounds):
        for gateway, redis, decisions, load, cpu, redis_cpu in rows.values():
            before = measure.processor(gateway.pid), measure.processor(redis.pid) if redis else 0.0
            calls = load()
            after = measure.processor(gateway.pid), measure.processor(redis.pid) if redis else 0.0
            cpu.append((after[0] - before[0]) / calls / decisions * 1e6)
            redis_cpu.append((after[1] - before[1]) / calls / decisions * 1e6)
    base = {store: median(rows[f"{store}, refused: proxied request"][4]) for store in ("memory", "redis")}
    print("| decision | CPU of the gateway, us | of Redis, us | to a refused request |")
    print("|---|---:|---:|---:|")
    for name, (*_, cpu, redis_cpu) in rows.items():
        ratio = median(cpu) / base[name.split(",")[0]]
        print(f"| {name} | {median(cpu):.2f} | {median(redis_cpu):.2f} | {ratio:.2f} |")


def wrk(run, url, script=None, seconds=None):
    """Loads with wrk; returns the number of answers."""
    command = [run.programs["wrk"], "-t1", f"-c{CONNECTIONS}", f"-d{seconds or run.seconds}s"]
    command += ["-s", script] if script else []
    said = done(run, [*command, url])
    return int(re.search(r"(\d+) requests in", said).group(1))


def check(run, door, kind, count):
    """Loads /v1/check with calls of so many checks."""
    one = {"limits": [kind], "per": {"ip": "192.0.2.1"}}
    script = run.folder / f"check-{kind}-{count}.lua"
    body = json.dumps({"checks": [one] * count})
    script.write_text(
        f"wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.body = '{body}'\n", encoding="utf-8"
    )
    return wrk(run, f"http://127.0.0.1:{door}/v1/check", script)


def rate_limit(run, door, kind):
    """Loads Envoy's service, with eight calls at a time on each of eight connections."""
    descriptor = entry("kind", kind) + entry("remote_address", "192.0.2.1")
    message = field(1, b"edge") + field(2, descriptor)
    file = run.folder / f"call-{kind}"
    file.write_bytes(b"\0" + struct.pack(">I", len(message)) + message)
    log = run.folder / "h2load.log"
    log.unlink(missing_ok=True)
    command = [run.programs["h2load"], "-t1", "-c8", "-m8", f"-D{run.seconds}", "-d", file, f"--log-file={log}"]
    command += ["-H", "content-type: application/grpc", "-H", "te: trailers", f"http://127.0.0.1:{door}{SHOULD_RATE_LIMIT}"]
    found = h2load_found(done(run, command), log.read_text(encoding="utf-8"))
    if found["broken"] or found["refused"]:
        raise Trouble(f"calls failed: {found}")
    return found["requests"]


def entry(key, value):
    """Encodes an entry of a descriptor."""
    return field(1, field(1, key.encode()) + field(2, value.encode()))


def field(number, data):
    """Encodes a field of a protobuf message that has a length below 128."""
    return bytes([number << 3 | 2, len(data)]) + data


def done(run, command):
    words = [str(word) for word in pinned(run.cores.load, command)]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    if said.returncode:
        raise Trouble(f"this failed: {' '.join(words)}: {said.stderr}")
    return said.stdout


ENVOY = """
admin: { address: { socket_address: { address: 127.0.0.1, port_value: ADMIN } } }
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: PORT } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: / }
                route:
                  cluster: api
                  rate_limits:
                  - actions: [{ generic_key: { descriptor_key: kind, descriptor_value: admits } }, { remote_address: {} }]
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: edge
              rate_limit_service:
                transport_api_version: V3
                grpc_service: { envoy_grpc: { cluster_name: limits } }
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: api
    load_assignment:
      cluster_name: api
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: API } } } }] }]
  - name: limits
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
    load_assignment:
      cluster_name: limits
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: DOOR } } } }] }]
"""


def deadline(run, processes, rate):
    """Asks through Envoy, first with a Redis that answers, then with a frozen one."""
    redis, redis_port = gateways.redis(run, processes)
    _, _, door = started(run, processes, redis_port, timeout="25ms", on_failure="local")
    port, admin = free_port(), free_port()
    text = ENVOY
    for name, value in (("ADMIN", admin), ("PORT", port), ("API", run.upstream_port), ("DOOR", door)):
        text = text.replace(name, str(value))
    file = run.folder / "envoy.yaml"
    file.write_text(text, encoding="utf-8")
    command = [run.programs["envoy"], "-c", file, "--concurrency", 1, "--disable-hot-restart", "-l", "off"]
    processes.start("envoy", pinned(run.cores.load, command))
    until(lambda: answered(f"http://127.0.0.1:{port}/"), "Envoy does not answer")
    print("| Redis | calls | p50, ms | p99, ms | given up by Envoy |")
    print("|---|---:|---:|---:|---:|")
    for name, signal in (("answers", None), ("is frozen", 19), ("answers again", 18)):
        if signal:
            redis.send_signal(signal)
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{admin}/reset_counters", method="POST"))
        before = stats(admin)
        steady = HERE / "comparison" / "steady.py"
        done(run, [sys.executable, steady, port, "/", rate, run.seconds, CONNECTIONS, 1])
        time.sleep(6)  # Envoy sums up its histograms every 5 s.
        after = stats(admin)
        calls = after["cluster.limits.upstream_rq_completed"] - before.get("cluster.limits.upstream_rq_completed", 0)
        given_up = after.get("cluster.limits.upstream_rq_timeout", 0) + after.get("cluster.api.ratelimit.error", 0)
        p50, p99 = histogram(admin)
        print(f"| {name} | {calls} | {p50} | {p99} | {given_up} |", flush=True)


def stats(admin):
    text = urllib.request.urlopen(f"http://127.0.0.1:{admin}/stats?format=json").read()
    entries = json.loads(text)["stats"]
    return {entry["name"]: entry["value"] for entry in entries if "name" in entry}


def histogram(admin):
    """Returns the median and the 99th percentile of the times of calls in the last interval, in milliseconds."""
    url = f"http://127.0.0.1:{admin}/stats?filter=cluster.limits.upstream_rq_time&histogram_buckets=none"
    text = urllib.request.urlopen(url).read().decode()
    found = [re.search(rf"P{part}\(([\d.]+|nan),", text) for part in (50, 99)]
    return [match.group(1) if match else "?" for match in found]


if __name__ == "__main__":
    main()
