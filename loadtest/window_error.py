#!/usr/bin/env python3
"""Compares the decisions of the sliding window counter with the exact log, on random, bursty and recorded traffic.

    loadtest/window_error.py --binary target/dist/tidegate [ACCESS_LOG ...]

`tidegate simulate` replays the same requests twice: under `sliding_window_counter`, and under `sliding_window_log`. The program compares both
decisions of each request, and prints a table. Both limits have the same numbers, and each counts only the requests that it admits. The random
and the bursty traffic are made from a fixed seed. A random client sends 0.5 to 1.5 times the limit. A bursty client sends two thirds of the
limit within two seconds, at random times, and so on average the whole limit per window.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from comparison.results import table

CLIENTS, MINUTES, BURST_SECONDS = 100, 60, 2
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
MAP = "time=$.t,peer=$.a,method=$.m,path=$.p"
ALGORITHMS = ("sliding_window_log", "sliding_window_counter")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="*", type=Path, help="recorded access logs, of any format of `tidegate simulate`")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--limits", default="20,60,600", help="requests a minute and client, separated by commas")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-windows-"))
    head = ["traffic", "limit a minute", "requests", "refused by the log", "by the counter", "by the counter alone", "by the log alone"]
    print("\n".join(table([*head, "decided differently"], [])))
    for limit in map(int, options.limits.split(",")):
        made = [(name, written(folder / name, times(limit, random.Random(1))), ["--map", MAP]) for name, times in MADE.items()]
        for name, log, words in made + [(log.name, log, []) for log in options.logs]:
            exact, counted = (decisions(options.binary, folder, limit, algorithm, log, words) for algorithm in ALGORITHMS)
            print(row(name, limit, exact, counted), flush=True)
    shutil.rmtree(folder)


def steady(limit, chance):
    """Returns requests of clients that send at random times, as pairs of seconds and client."""
    found = []
    for client in range(CLIENTS):
        rate, now = limit / 60 * (0.5 + client / (CLIENTS - 1)), 0.0
        while (now := now + chance.expovariate(rate)) < 60 * MINUTES:
            found.append((now, client))
    return sorted(found)


def bursty(limit, chance):
    """Returns requests of clients that send bursts at random times."""
    found, burst = [], max(1, limit * 2 // 3)
    for client in range(CLIENTS):
        now = 0.0
        while (now := now + chance.expovariate(limit / 60 / burst)) < 60 * MINUTES:
            found += [(now + chance.uniform(0, BURST_SECONDS), client) for _ in range(burst)]
    return sorted(found)


MADE = {"random": steady, "bursty": bursty}


def written(path, requests):
    with open(path, "w", encoding="utf-8") as file:
        for at, client in requests:
            time = (BEGIN + timedelta(seconds=at)).isoformat(timespec="microseconds")
            file.write(json.dumps({"t": time, "a": f"192.0.2.{client + 1}", "m": "GET", "p": "/"}) + "\n")
    return path


def decisions(binary, folder, limit, algorithm, log, words):
    """Returns by the number of each request whether it is refused."""
    config, decided = folder / "limit.yaml", folder / "decisions.jsonl"
    limits = {"per-client": {algorithm: {"limit": limit, "window": "1m"}}}
    routes = [{"path": "/**", "upstream": "http://127.0.0.1:9000", "limits": ["per-client"]}]
    config.write_text(json.dumps({"clients": [{"ip": {}}], "limits": limits, "routes": routes}), encoding="utf-8")
    command = [binary, "simulate", "-c", config, "--json", "--decisions", decided, *words, log]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {done.stderr}")
    with open(decided, encoding="utf-8") as lines:
        return {line["request"]: bool(line["refused_by"]) for line in map(json.loads, lines)}


def row(name, limit, exact, counted):
    if exact.keys() != counted.keys() or not exact:
        sys.exit(f"error: {name}: the replays have different requests, or none")
    alone = sum(counted[number] and not exact[number] for number in exact)
    missed = sum(exact[number] and not counted[number] for number in exact)
    figures = [limit, len(exact), sum(exact.values()), sum(counted.values()), alone, missed]
    return f"| {name} | " + " | ".join(f"{figure:,}" for figure in figures) + f" | {(alone + missed) / len(exact):.3%} |"


if __name__ == "__main__":
    main()
