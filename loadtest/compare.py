#!/usr/bin/env python3
"""Runs tidegate beside nginx, HAProxy, Envoy and Traefik, in one run on one machine, and measures the cost of a request.

    loadtest/compare.py --install        # installs what is missing, builds tidegate, measures, writes a report
    loadtest/compare.py --quick          # one round of a second each, to see whether it works

docs/performance.md describes the method. Exit status: 0 all aims are met, 1 an aim is missed, 2 the run was not possible.
"""

import argparse
import resource
import shutil
import signal
import sys
import tempfile
from datetime import date
from pathlib import Path
from types import SimpleNamespace

from comparison import done, gateways, measure, programs, tls
from comparison.results import Results
from comparison.rows import ALONE, fitting, rows, with_other_build
from kit import machine
from kit.processes import Binaries, Processes, Trouble

HERE = Path(__file__).resolve().parent
PARTS = ["full", "half", "idle"]
# The rows whose times are measured at half of the top rate, and the rows whose idle clients are measured.
STEADY = [
    ALONE,
    "nginx admitted",
    "memory admitted",
    "hyper admitted",
    "hyper-redis admitted",
    "exact admitted",
    "leased admitted",
]
TOP_RATE = ["memory admitted", "exact admitted"]
SILENT = ["memory admitted", "nginx admitted", "haproxy admitted", "envoy admitted", "traefik admitted"]


def main():
    options = arguments()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    folder = Path(tempfile.mkdtemp(prefix="tidegate-compare-"))
    passed = None
    try:
        passed = compared(folder, options)
    except Trouble as trouble:
        print(f"error: {trouble}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        if passed is None:
            print(f"its logs are in {folder}")
        else:
            shutil.rmtree(folder)
    return 2 if passed is None else 0 if passed else 1


def arguments():
    parser = argparse.ArgumentParser(description="tidegate beside other gateways: CPU time per request, in one run.")
    parser.add_argument("--install", action="store_true", help="installs what is missing (apt-get, and PyPI into ~/.cache)")
    parser.add_argument("--binary", type=Path, help="a gateway that is built already; a build with `--profile dist`, or it says little")
    parser.add_argument("--against", type=Path, help="another build of tidegate, such as that of the commit before: after each row its own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each row in each round")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--idle", type=int, default=10_000, help="how many idle connections")
    parser.add_argument("--rows", default="*", help="only rows whose name fits, as in '* admitted'; several by commas")
    parser.add_argument("--parts", default=",".join(PARTS), help="of full, half and idle, by commas; half needs full")
    parser.add_argument("--quick", action="store_true", help="one round of one second, 1,000 idle connections")
    parser.add_argument("--results", type=Path, default=HERE / "runs", help="where the report goes; git ignores the default, loadtest/runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.idle = 1, 1, min(options.idle, 1_000)
    options.parts = options.parts.split(",")
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]}")
    if options.against and not options.against.is_file():
        parser.error(f"there is no {options.against}")
    if min(options.rounds, options.seconds, options.connections, options.idle) < 1:
        parser.error("numbers must be at least 1")
    return options


def compared(folder, options):
    found = programs.have(options.install)
    run = SimpleNamespace(folder=folder, programs=found, cores=measure.cores())
    run.seconds, run.connections = options.seconds, options.connections
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1_000
    if options.idle > room and "idle" in options.parts:
        raise Trouble(f"{options.idle:,} idle connections need more open files than this machine allows (ulimit -Hn): {room:,}")
    run.binaries = Binaries(options.binary, api=False)
    bare = run.binaries.gateway.with_name(gateways.BARE)
    if bare.exists():
        found[gateways.BARE] = bare
    facts = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "connections": options.connections,
        "idle_connections": options.idle,
        "versions": programs.versions(found),
        "machine": machine.described(run.binaries),
        "load_before": machine.load(),
    }
    run.against = options.against and options.against.resolve()
    if run.against:
        facts["versions"] |= {
            "this build": programs.build(run.binaries.gateway),
            "other build": programs.build(run.against),
        }
    there, left_out = rows(found)
    there = fitting(there, options.rows.split(","))
    if run.against:
        there = list(with_other_build(there))
    results = Results(there)
    results.left_out, results.connections_idle = left_out, options.idle
    run.tls = tls.files(folder)
    if any(row.traffic.tls for row in there):
        tls.make(found["openssl"], run.tls)
    with Processes(folder, run.binaries) as processes:
        gateways.upstream(run, processes)
        if "full" in options.parts:
            full(run, results, options)
        if "half" in options.parts and any(results.full.get(name) for name in TOP_RATE):
            half(run, results, options)
        if "idle" in options.parts:
            rounds(options, results, results.idle, SILENT, lambda row, _: measure.idle(row, run, options.idle))
    verdict = done.verdict(results)
    page = results.write(options.results, date.today().isoformat(), facts, verdict)
    print(verdict.text())
    for sentence in results.failed:
        print(f"failed: {sentence}")
    print(f"the report is {page}")
    return verdict.passed and not results.failed


def full(run, results, options):
    names = [ALONE, *results.rows]
    rounds(options, results, results.full, names, lambda row, _: measure.full(row, run) if row else measure.upstream_alone(run))


def half(run, results, options):
    """Measures all at one rate, half of the top rate of the slower store, so that the stores can be compared."""
    top = [results.median(results.full[name])["per_second"] for name in TOP_RATE if results.full.get(name)]
    results.rate = round(min(top) / 2)
    rounds(options, results, results.half, STEADY, lambda row, number: measure.steady(row, run, results.rate, number))


def rounds(options, results, part, names, measured):
    """Measures these rows in turn, round after round, each second round backwards. A row that fails is left out from then on."""
    names = [name for name in names if name == ALONE or name in results.rows]
    for number in range(options.rounds):
        for name in names if number % 2 == 0 else reversed(names):
            if any(sentence.startswith(f"{name}: ") for sentence in results.failed):
                continue
            print(f"round {number + 1} of {options.rounds}: {name:22}", end=" ", flush=True)
            try:
                figures = measured(results.rows.get(name), number)
            except Trouble as trouble:
                why = " ".join(str(trouble).split())
                results.failed.append(why if why.startswith(f"{name}: ") else f"{name}: {why}")
                print(results.failed[-1], flush=True)
                continue
            part.setdefault(name, []).append(figures)
            print(", ".join(f"{key} {value:,.2f}" for key, value in figures.items()), flush=True)
    for name in [name for name in part if len(part[name]) < options.rounds]:
        del part[name]


if __name__ == "__main__":
    sys.exit(main())
