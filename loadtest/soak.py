#!/usr/bin/env python3
"""Good and hostile clients for a long time, on a Redis that is killed again and again: does anything grow, or get lost?

    loadtest/soak.py --binary target/dist/tidegate                  # half an hour, Redis is killed every five minutes
    loadtest/soak.py --binary target/dist/tidegate --minutes 6 --kill-every 60

Good clients send requests at a fixed rate and read every answer. Hostile clients are slow, silent, deaf, rude, or gone. Exit status:
0 if memory in the last minute is at most 10 % above minute five (in a short run above the sixth part), if all descriptors
came back, and if the gateway counted every request that its clients counted; 1 if not. Writes a report and its figures to
loadtest/runs, which git ignores.
"""

import argparse
import asyncio
import collections
import datetime
import json
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from kit.machine import described
from kit.processes import Binaries, Processes, fetched, stop
from kit.soakers import Api, Counts, Good, Hostile

RESULTS = Path(__file__).parent / "runs"
GROWTH = 1.10  # at most
SAMPLE_EVERY = 5  # seconds
DOWN = 5  # seconds for which a killed Redis stays away
SETTLE = 60  # seconds in which idle connections close, those to the API included


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the gateway; a build with `--profile dist`, or it says little")
    parser.add_argument("--minutes", type=float, default=30, help="how long it goes on (default: 30)")
    parser.add_argument("--kill-every", type=float, default=300, help="seconds from one kill of Redis to the next (default: 300)")
    parser.add_argument("--rate", type=float, default=200, help="good requests a second (default: 200)")
    parser.add_argument("--no-report", action="store_true", help="prints, and writes no report")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-soak-") as folder:
        with Processes(folder, Binaries(options.binary, api=False)) as processes:
            run = asyncio.run(soak(options, processes))
    text, passed = report(options, run)
    print(text)
    if not options.no_report:
        name = f"{datetime.date.today()}-soak"
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
        (RESULTS / f"{name}.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return 0 if passed else 1


def configuration(api):
    """Limits of every kind, on routes of their own. A route's metrics must equal the counts of its clients."""
    per_client = {"token_bucket": {"capacity": 20, "refill": "10/s"}}
    route = lambda name, *limits, **more: {"name": name, "path": f"/{name}/**", "upstream": api, "limits": limits, **more}
    return {
        "trusted_proxies": ["127.0.0.2"],
        "timeouts": {"header": "5s", "idle": "20s", "upstream": "10s"},
        "limits": {
            "burst": per_client,
            "window": {"fixed_window": {"limit": 60, "window": "10s"}},
            "leased": {**per_client, "mode": "leased"},
            "log": {"sliding_window_log": {"limit": 50, "window": "10s"}},
            "logins": {"sliding_window_counter": {"limit": 30, "window": "10s"}, "count": {"status": [401]}},
            "places": {"concurrency": {"limit": 20}, "per": []},
            "queue": {"leaky_bucket": {"queue": 50, "drain": "100/s"}, "per": []},
            "rude": {"token_bucket": {"capacity": 100000, "refill": "10000/s"}, "per": ["ip"]},
        },
        "routes": [
            route("burst", "burst", "window"),
            route("leased", "leased"),
            route("log", "log"),
            route("logins", "logins"),
            route("places", "places"),
            route("queue", "queue"),
            route("leavers", "rude", "places"),
            route("rude", "rude"),
        ],
    }


async def soak(options, processes):
    counts = Counts()
    api = Api()
    await api.listen()
    redis, port = processes.redis()
    store = {"redis": {"url": f"redis://127.0.0.1:{port}", "timeout": "25ms", "on_failure": "local"}}
    gateway, address, admin = processes.gateway("gateway", configuration(api.url), store)
    # The state after each part was used once, and after idle connections were closed.
    await Good(address, options.rate, counts).run(time.monotonic() + 5)
    before = await settled(gateway, 0, SETTLE)
    began = time.monotonic()
    end = began + options.minutes * 60
    good = Good(address, options.rate, counts)
    hostile = Hostile(address, counts)
    tasks = [asyncio.create_task(one.run(end)) for one in (good, hostile)]
    samples, kills, killed_at = [], 0, began
    while (now := time.monotonic()) < end:
        samples.append((round(now - began), resident(gateway), descriptors(gateway)))
        if now - killed_at >= options.kill_every:
            killed_at, kills = now, kills + 1
            redis.kill()
            redis.wait()
            await asyncio.sleep(DOWN)
            redis, _ = await asyncio.to_thread(processes.redis, port)
        await asyncio.sleep(min(SAMPLE_EVERY, max(0, end - time.monotonic())))
    await asyncio.gather(*tasks)
    # Requests that were cut off still have to end.
    after = await settled(gateway, before, SETTLE)
    metrics = await asyncio.to_thread(fetched, f"{admin}/metrics")
    await asyncio.to_thread(stop, gateway)
    return {
        "machine": described(processes.binaries),
        "seconds": round(end - began),
        "kills": kills,
        "samples": samples,
        "descriptors": [before, max(sample[2] for sample in samples), after],
        "status": gateway.returncode,
        "answers": {route: dict(answers) for route, answers in counts.answers.items()},
        "sent": dict(counts.sent),
        "failed": dict(counts.failed),
        "hostile": dict(counts.hostile),
        "counted": counted(metrics),
        "dropped_log_lines": number(metrics, "tidegate_access_log_dropped_lines_total"),
        "logged": logged(gateway.log),
    }


async def settled(process, most, within):
    """Returns the descriptors of a process when they are at most `most`, or after `within` seconds."""
    deadline = time.monotonic() + within
    while (now := descriptors(process)) > most and time.monotonic() < deadline:
        await asyncio.sleep(1)
    return now


def resident(process):
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1))


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def counted(metrics):
    """Returns the requests that the gateway counted, by route and outcome."""
    by_route = collections.defaultdict(collections.Counter)
    for labels, value in re.findall(r"^tidegate_requests_total\{([^}]*)\} (\d+)", metrics, re.MULTILINE):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        by_route[labels["route"]][labels["outcome"]] += int(value)
    return {route: dict(outcomes) for route, outcomes in by_route.items()}


def number(metrics, name):
    found = re.search(rf"^{name} (\d+)", metrics, re.MULTILINE)
    return int(found.group(1)) if found else None


def logged(log):
    """Lines of the access log, by route."""
    lines = collections.Counter()
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            if '"outcome"' in line and (route := re.search(r'"route":"([^"]*)"', line)):
                lines[route.group(1)] += 1
    return dict(lines)


def report(options, run):
    samples, seconds = run["samples"], run["seconds"]
    minute = min(60, seconds / 6)
    early = min(300, seconds / 6)
    memory = lambda start, end: statistics.median(sample[1] for sample in samples if start <= sample[0] <= end)
    first, last = memory(early, early + minute), memory(seconds - minute, seconds)
    before, most, after = run["descriptors"]
    rows, lost = [], []
    for route in sorted(run["sent"]):
        sent = run["sent"][route]
        gateway = sum(run["counted"].get(route, {}).values())
        lines = run["logged"].get(route, 0)
        rows.append(f"| {route} | {sent:,} | {gateway:,} | {lines:,} | {text_of(run['answers'].get(route, {}))} | {run['failed'].get(route, 0)} |")
        if not sent == gateway == lines or run["failed"].get(route, 0):
            lost.append(route)
    checks = [
        (last <= first * GROWTH, f"memory: {first / 1024:.1f} MB after {early / 60:.0f} minutes, {last / 1024:.1f} MB in the end"),
        (after <= before, f"descriptors: {before} before, {most} at most, {after} after"),
        (not lost, f"requests: {'none is unaccounted for' if not lost else 'differ on ' + ', '.join(lost)}"),
        (run["dropped_log_lines"] == 0, f"lines that the access log dropped: {run['dropped_log_lines']}"),
        (run["status"] == 0, f"the gateway ended with status {run['status']}"),
    ]
    hostile = ", ".join(f"{what} {count:,}" for what, count in sorted(run["hostile"].items()))
    lines = [
        f"# Soak, {datetime.date.today()}",
        "",
        f"`loadtest/soak.py --minutes {options.minutes:g} --kill-every {options.kill_every:g} --rate {options.rate:g}` on",
        f"{', '.join(f'{what}: {how}' for what, how in run['machine'].items())}.",
        f"Redis was killed {run['kills']} times, and was back {DOWN} s later with nothing in it.",
        "",
        *(f"- {'passed' if passed else 'FAILED'}: {text}" for passed, text in checks),
        "",
        "| route | sent by clients | counted by the gateway | lines of its log | answers | without an answer |",
        "|---|--:|--:|--:|---|--:|",
        *rows,
        "",
        f"Hostile clients beside them, and how often each did it: {hostile}.",
        "",
        f"What the gateway counted on no route: {text_of(run['counted'].get('none', {}))}.",
    ]
    return "\n".join(lines) + "\n", all(passed for passed, _ in checks)


def text_of(counts):
    return ", ".join(f"{what} {count:,}" for what, count in sorted(counts.items()) if count) or "none"


if __name__ == "__main__":
    sys.exit(main())
