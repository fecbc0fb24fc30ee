"""Locust as a process of its own, without a page or with one."""

import json
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

from kit.processes import Trouble, free_port

HERE = Path(__file__).resolve().parents[1]
PROGRESS = 10  # seconds from one line of progress to the next


def run(processes, scenario, plan, users, options, name="locust", during=None, later=0, steps_back=True):
    """Rides to the end; gives the file of requests, and the notes that riders made. `during` is called meanwhile.

    `later` is how many seconds the rides after this one take, for the progress that is printed.
    """
    folder = processes.folder
    requests, notes = folder / f"{name}-requests.tsv", folder / f"{name}-notes.jsonl"
    path = folder / f"{name}.json"
    plan = {**plan, "requests": str(requests), "notes": str(notes)}
    path.write_text(json.dumps(plan), encoding="utf-8")
    command = [sys.executable, "-m", "locust", "-f", HERE / "riders" / f"{scenario}.py", "--loglevel", "WARNING"]
    command += ["-u", users, "-r", min(users, 100), "-t", f"{plan['seconds']}s", "--stop-timeout", plan["patience"] + 2]
    command += ["--exit-code-on-error", "0"]
    if options.page:
        port = free_port()
        command += ["--autostart", "--autoquit", "1", "--web-host", "127.0.0.1", "--web-port", port]
        print(f"Locust's page: http://127.0.0.1:{port}", flush=True)
    else:
        command += ["--headless", "--only-summary"]
    env = {"LOADTEST_RUN": str(path), "PYTHONPATH": str(HERE)}
    # Locust must not take the processor from the processes under test, unless they have another core.
    process = processes.start(name, command, steps_back=steps_back, env=env)
    if during:
        during()
    ended = threading.Event()
    threading.Thread(target=progress, args=(name, plan["seconds"], later, ended), daemon=True).start()
    try:
        failed = process.wait(plan["seconds"] + plan["patience"] + 120)
    finally:
        ended.set()
    if failed or not requests.exists():
        raise Trouble(f"Locust failed: see {process.log}")
    found = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    return SimpleNamespace(requests=requests, notes=[json.loads(line) for line in found])


def progress(name, seconds, later, ended):
    """Prints how far a ride is and how long all rides still take, until it has ended."""
    begun = time.monotonic()
    while not ended.wait(PROGRESS):
        gone = min(time.monotonic() - begun, seconds)
        print(f"{name}: {gone:.0f} of {seconds} s; about {seconds - gone + later:.0f} s left in all", flush=True)
