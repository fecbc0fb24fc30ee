#!/usr/bin/env python3
"""Counts the user instructions of a whole request, through a gateway under valgrind.

    cargo build --release -p tidegate -p bare-proxy
    loadtest/instructions.py --binary target/release/tidegate

docs/instructions.md describes the method. Exit status: 0 counted, 2 the run was not possible.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from comparison import gateways, load, measure, programs
from comparison.rows import rows
from kit.processes import Binaries, Processes, Trouble, until

# Rows with Redis are not possible: under valgrind the library rustix fails when it reads the uptime.
ROWS = ["memory admitted", "memory refused", "default admitted", "default refused", "hyper admitted", "hyper refused"]
WARM_UP, SECONDS = 3, 8


def main():
    parser = argparse.ArgumentParser(description="User instructions per request, counted by valgrind's callgrind.")
    parser.add_argument("--binary", type=Path, required=True, help="the gateway, with bare-proxy beside it")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rows", default=",".join(ROWS), help="rows of loadtest/compare.py without Redis, by commas")
    parser.add_argument("--keep", type=Path, help="the folder for callgrind's files, for callgrind_annotate")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-instructions-"))
    try:
        counted(folder, options)
    except Trouble as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder)
    return 0


def counted(folder, options):
    if not shutil.which("valgrind"):
        raise Trouble("there is no valgrind (apt-get install valgrind)")
    found = programs.have(install=False)
    run = SimpleNamespace(folder=folder, programs=found, cores=measure.cores(), connections=options.connections, against=None)
    run.binaries = Binaries(options.binary, api=False)
    bare = run.binaries.gateway.with_name(gateways.BARE)
    if bare.exists():
        found[gateways.BARE] = bare
    named = {row.name: row for row in rows(found)[0]}
    with Processes(folder, run.binaries) as processes:
        gateways.upstream(run, processes)
        for name in options.rows.split(","):
            if name not in named:
                raise Trouble(f"there is no row {name}, or a program is missing that it needs")
            instructions, requests = under_callgrind(named[name], run)
            print(f"{name:18} {instructions / requests:10,.0f} instructions a request ({requests:,} requests)", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                for file in folder.glob("callgrind.out.*.1"):
                    shutil.move(file, options.keep / f"{name.replace(' ', '-')}.callgrind")


def under_callgrind(row, run):
    """Returns the instructions of a row's gateway, and the requests that it answered meanwhile."""
    out = run.folder / "callgrind.out"
    under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}.%p"]
    with measure.started(row, run, under=under) as target:
        load.wrk(target, run, WARM_UP)
        control(target.process.pid, "--zero")
        told = load.wrk(target, run, SECONDS)
        control(target.process.pid, "--dump")
        file = Path(f"{out}.{target.process.pid}.1")
        totals = re.compile(r"^totals: (\d+)", re.MULTILINE)
        until(lambda: file.exists() and totals.search(file.read_text()), f"callgrind wrote no {file}")
        instructions = int(totals.search(file.read_text()).group(1))
    measure.judge(row, told, SECONDS)
    return instructions, told["requests"]


def control(process, action):
    """Sends a command to callgrind."""
    done = subprocess.run(["callgrind_control", action, str(process)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Trouble(f"callgrind_control {action} failed: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
