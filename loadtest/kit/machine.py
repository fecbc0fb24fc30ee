"""The machine of a run: figures have no meaning without it."""

import contextlib
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kit.processes import TOP

PLACES = ("--binary", "--results", "--csv")


def described(binaries):
    model = found("/proc/cpuinfo", r"model name\s*: (.*)")
    memory = found("/proc/meminfo", r"MemTotal: *([0-9]+)")
    return {
        "processor": f"{os.cpu_count()} × {model}",
        "memory": f"{int(memory) / 2**20:.0f} GiB" if memory.isdigit() else memory,
        "system": f"{platform.system()} {platform.release()}",
        "tidegate": f"{said(binaries.gateway, '--version')} ({said('git', 'describe', '--always', '--dirty')}), "
        f"{'debug' if '/debug/' in str(binaries.gateway) else 'release'} build",
        "redis": said("redis-server", "--version").split(" sha=")[0],
        "python": platform.python_version() + locust(),
    }


def locust():
    try:
        return f", Locust {version('locust')}"
    except PackageNotFoundError:
        return ""


def command():
    """Returns the command of this run, without options that name a place on this machine."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in PLACES:
            next(words, None)
        elif not word.startswith(tuple(f"{place}=" for place in PLACES)):
            kept.append(word)
    return " ".join([f"loadtest/{Path(sys.argv[0]).name}", *kept])


@contextlib.contextmanager
def placed(cores):
    """Gives a function that binds the processes started from then on to the cores of one part; without `cores`, to none."""
    before = os.sched_getaffinity(0)
    try:
        yield lambda part: os.sched_setaffinity(0, cores[part]) if cores else None
    finally:
        os.sched_setaffinity(0, before)


def load():
    """Returns the load of the machine before the run: processes that need a processor, over the last minute."""
    return os.getloadavg()[0]


def found(path, pattern):
    match = re.search(pattern, Path(path).read_text(encoding="utf-8")) if Path(path).exists() else None
    return match.group(1).strip() if match else "unknown"


def said(*command):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=TOP, check=False)
    except OSError:
        return "none"
    return done.stdout.strip() or "unknown"
