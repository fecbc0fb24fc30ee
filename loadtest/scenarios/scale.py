"""Latency over the offered load until a gateway breaks, on memory and on Redis; then more clients, and more gateways on one Redis.

The client is open-loop: it sends each request when the request is due, whatever the answers. One core has the gateways, Redis and the
API; another core has the client. Gateways that share a core do not serve more together, so their figures are costs per request.
"""

import contextlib
import copy
import json
import sys
from datetime import date
from subprocess import run as call
from types import SimpleNamespace

from comparison import gateways, measure, programs, scaling
from comparison.gateways import ADMITS, PATH, pinned, serves
from comparison.load import SMALL, wrk
from comparison.measure import WARM_UP
from kit import machine
from kit.processes import Processes, Trouble, free_port

SECONDS, CONNECTIONS = 5, 64
HERE = measure.HERE
# The offered loads, as shares of the rate that 64 connections reach without pauses.
STEPS = (0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
CLIENTS = (1, 100, 10_000)
GATEWAYS = (1, 2, 4)
STEADY = 0.5  # the share at which clients and gateways are compared
PATIENCE = 10  # seconds that comparison/steady.py waits for late answers


def run(folder, binaries, options):
    found = programs.have(False)
    if "redis-server" not in found:
        raise Trouble("the scale needs redis-server")
    run = SimpleNamespace(folder=folder, programs=found, cores=measure.cores(), binaries=binaries)
    run.seconds, run.connections = options.seconds or SECONDS, CONNECTIONS
    # The processes under test share the core of the gateway.
    run.system = copy.copy(run)
    run.system.cores = SimpleNamespace(one=run.cores.one, load=run.cores.one)
    results = SimpleNamespace(seconds=run.seconds, rounds=options.rounds, connections=CONNECTIONS, steps=STEPS, steady=STEADY)
    results.machine, results.command, results.load_before = machine.described(binaries), machine.command(), machine.load()
    results.versions = programs.versions({name: found[name] for name in ("nginx", "wrk", "redis-server") if name in found})
    results.cores = {"gateways, Redis and the API": run.cores.one[0], "client": run.cores.load[0]}
    results.top, results.curve, results.clients, results.gateways = {}, {}, {}, {}
    with Processes(folder, binaries) as processes:
        gateways.upstream(run.system, processes)
        for store in scaling.STORES:
            with fleet(run, 1, store) as target:
                wrk(target, run, WARM_UP)
                said = wrk(target, run, run.seconds)
            results.top[store] = said["requests"] / said["microseconds"] * 1e6
            print(f"{store}: {results.top[store]:,.0f} requests a second at most", flush=True)
        for number in range(options.rounds):
            measured(run, results, number)
    verdict = scaling.verdict(results)
    path = scaling.write(results, verdict, options.results, date.today().isoformat())
    print(verdict.text())
    print("passed" if verdict.passed else "FAILED")
    print(f"the report: {path}")
    return verdict.passed


def measured(run, results, number):
    """Measures each point once, in one round."""

    def point(into, key, many, store, share, clients):
        with fleet(run, many, store) as target:
            figures = steady(run, target, share * results.top[store], number, clients)
        into.setdefault(key, []).append(figures)
        shown = ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())
        print(f"round {number + 1} of {results.rounds}: {key}: {shown}", flush=True)

    for store in scaling.STORES:
        for share in results.steps:
            point(results.curve, (store, share), 1, store, share, 1)
        for clients in CLIENTS:
            point(results.clients, (store, clients), 1, store, STEADY, clients)
    for many in GATEWAYS:
        point(results.gateways, many, many, "redis", STEADY, 100)


@contextlib.contextmanager
def fleet(run, many, store):
    """Starts gateways on one store, for the time of the `with`."""
    system = run.system
    with Processes(run.folder, run.binaries) as processes:
        redis, redis_port = gateways.redis(system, processes) if store == "redis" else (None, None)
        target = SimpleNamespace(redis=redis, redis_port=redis_port, processes=[], ports=[])
        for _ in range(many):
            port = free_port()
            command, env = gateways.tidegate(system, ADMITS, port, redis_port, trusted=("127.0.0.1",))
            process = processes.start("gateway", pinned(system.cores.one, command), env=env)
            serves(process, port)
            target.processes.append(process)
            target.ports.append(port)
        target.port, target.headers, target.clients, target.traffic = target.ports[0], [], 1, SMALL
        yield target


def steady(run, target, rate, seed, clients):
    """Offers a steady rate, and returns the carried rate, times in milliseconds, and costs in microseconds."""

    def used():
        redis = measure.processor(target.redis.pid) if target.redis else 0.0
        return sum(measure.processor(process.pid) for process in target.processes), redis

    before = used()
    ports = ",".join(map(str, target.ports))
    client = [sys.executable, HERE / "steady.py", ports, PATH, round(rate), run.seconds, run.connections, seed, clients]
    done = call([str(word) for word in pinned(run.cores.load, client)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Trouble(f"the steady client failed: {done.stderr}")
    gateway, redis = (after - at for after, at in zip(used(), before))
    told = json.loads(done.stdout)
    if told["refused"] or not told["answered"]:
        raise Trouble(f"{told['due']:,} requests were due, {told['answered']:,} answered and {told['refused']:,} refused")
    return {
        "offered": told["due"] / run.seconds,
        "carried": told["answered"] / max(told["seconds"], run.seconds),
        "unanswered": told["due"] - told["answered"],
        **{f"{name}_ms": told[name] / 1000 for name in ("p50", "p95", "p99")},
        "cpu_us": gateway / told["sent"] * 1e6,
        "redis_cpu_us": redis / told["sent"] * 1e6,
        "client_busy": told["busy"],
    }
