#!/usr/bin/env python3
"""Weighs a client: bytes of the gateway's memory, or of Redis, per key of each algorithm.

    loadtest/weigh.py                       # a million clients, both stores; half an hour on a small machine
    loadtest/weigh.py --clients 100000      # a table of another size has other gaps in it: the figures differ a little

Each client has an address of its own, and every limit is slow enough that no state expires in a run. It prints a table for
docs/capacity.md. Needs nginx, redis-server and wrk, as loadtest/compare.py does.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from comparison import gateways, measure, programs
from kit.processes import Binaries, Processes, Trouble, fetched, free_port

HERE = Path(__file__).resolve().parent
# Each limit, with the requests of every client: one, and ten for the log, which gives the bytes of one entry.
LIMITS = {
    "token_bucket": ({"token_bucket": {"capacity": 20, "refill": "20/d"}}, 1),
    "leaky_bucket": ({"leaky_bucket": {"queue": 20, "drain": "20/d", "nodelay": True}}, 1),
    "fixed_window": ({"fixed_window": {"limit": 100, "window": "7d"}}, 1),
    "sliding_window_counter": ({"sliding_window_counter": {"limit": 100, "window": "1d"}}, 1),
    "sliding_window_log, 1 entry": ({"sliding_window_log": {"limit": 100, "window": "1d"}}, 1),
    "sliding_window_log, 10 entries": ({"sliding_window_log": {"limit": 100, "window": "1d"}}, 10),
}


def main():
    parser = argparse.ArgumentParser(description="Bytes per client of each algorithm, in both stores.")
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--binary", type=Path, help="a gateway that is built already")
    options = parser.parse_args()
    # A run that gets SIGTERM stops the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    folder = Path(tempfile.mkdtemp(prefix="tidegate-weigh-"))
    try:
        found = programs.have(install=False)
        run = SimpleNamespace(folder=folder, programs=found, binaries=Binaries(options.binary, api=False), cores=measure.cores())
        print("| algorithm | memory store, bytes per key | Redis, bytes per key |\n|---|--:|--:|", flush=True)
        with Processes(folder, run.binaries) as processes:
            gateways.upstream(run, processes)
            for name, (limit, times) in LIMITS.items():
                clients = options.clients // times
                memory, redis = (weighed(run, limit, clients, times, on_redis) for on_redis in (False, True))
                print(f"| {name} | {memory:,.0f} | {redis:,.0f} |", flush=True)
    except Trouble as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder)
    return 0


def weighed(run, limit, clients, times, on_redis):
    """Returns the bytes of a key: the bytes that all keys have added, divided by their number."""
    with Processes(run.folder, run.binaries) as processes:
        port, admin, redis = free_port(), free_port(), None
        store = "memory"
        if on_redis:
            _, redis = gateways.redis(run, processes)
            store = {"redis": {"url": f"redis://127.0.0.1:{redis}", "timeout": "5s", "on_failure": "closed"}}
        config = {
            "listen": f"127.0.0.1:{port}",
            "admin": f"127.0.0.1:{admin}",
            "trusted_proxies": ["127.0.0.1"],
            "store": store,
            "secret": "of this run alone",
            "limits": {"weighed": limit},
            "routes": [{"path": "/**", "upstream": f"http://127.0.0.1:{run.upstream_port}", "limits": ["weighed"]}],
            "log": {"access": False},
        }
        file = run.folder / "gateway.yaml"
        file.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        gateway = processes.start("gateway", [run.binaries.gateway, "run", "-c", file])
        gateways.serves(gateway, port)

        def weight():
            return used_memory(redis) if on_redis else measure.resident(gateway.pid)

        def keys():
            if on_redis:
                return int(re.search(r"keys=(\d+)", "".join(measure.info(redis, "keyspace"))).group(1))
            page = fetched(f"http://127.0.0.1:{admin}/metrics") or ""
            return int(float(re.search(r"^tidegate_memory_keys (\S+)", page, re.MULTILINE).group(1)))

        # Puts the later number of requests in flight, by one client: their memory must not count for a client.
        visit(run, port, 1, 1_000)
        before, there = weight(), keys()
        visit(run, port, clients, times)
        time.sleep(1)
        added = keys() - there
        # The memory store holds a million keys at most, and a few newcomers find their part of it full.
        if added < 0.95 * clients:
            raise Trouble(f"{clients:,} clients came, but only {added:,} keys are there")
        return (weight() - before) / added


def visit(run, port, clients, times):
    command = [run.programs["wrk"], "-t1", "-c64", "-d1h", "-s", HERE / "comparison" / "clients.lua"]
    command += [f"http://127.0.0.1:{port}{gateways.PATH}", "--", clients, times]
    words = [str(word) for word in gateways.pinned(run.cores.load, command)]
    if subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode:
        raise Trouble("wrk failed")


def used_memory(port):
    return int(next(line for line in measure.info(port, "memory") if line.startswith("used_memory:")).split(":")[1])


if __name__ == "__main__":
    sys.exit(main())
