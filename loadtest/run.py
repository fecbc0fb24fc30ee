#!/usr/bin/env python3
"""Runs a load test from scratch: builds, starts the API, Redis if an option requires it, gateways and Locust, and judges.

    loadtest/run.py surge | fairness | boundary | mixed | scale | shares [options]

Exit status: 0 every claim is proved, 1 a claim is not (it is printed), 2 the run was not possible.
"""

import argparse
import importlib
import importlib.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit("error: the load tests need Python 3.11 or newer")

HERE = Path(__file__).resolve().parent
SCENARIOS = ["surge", "fairness", "boundary", "mixed", "scale", "shares"]
# These send requests by clients of their own.
WITHOUT_LOCUST = ("scale", "shares")


def main():
    options = arguments()
    if options.self_test:
        from kit import selftest

        return selftest.run(options)
    if options.scenario not in WITHOUT_LOCUST:
        with_locust()
    from kit.processes import Binaries, Trouble

    # Thousands of riders have a connection each, and the gateway has two for each of them.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))
    # A run that gets SIGTERM stops the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    folder = Path(tempfile.mkdtemp(prefix=f"tidegate-{options.scenario}-"))
    passed = None
    try:
        binaries = Binaries(options.binary, api=options.scenario != "scale")
        scenario = importlib.import_module("scenarios.chapter" if options.chapter else f"scenarios.{options.scenario}")
        if hasattr(scenario, "run"):
            passed = scenario.run(folder, binaries, options)
        else:
            from kit.single import run

            passed = run(scenario, folder, binaries, options)
    except Trouble as trouble:
        print(f"error: {trouble}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        if passed and not options.keep:
            shutil.rmtree(folder)
        else:
            print(f"its logs and records are in {folder}")
    return 2 if passed is None else 0 if passed else 1


def arguments():
    parser = argparse.ArgumentParser(description="Load tests of tidegate that say what they prove.")
    parser.add_argument("scenario", nargs="?", choices=SCENARIOS)
    parser.add_argument("--store", choices=["memory", "redis"], help="default: memory, for one gateway")
    parser.add_argument("--gateways", type=int, default=1, help="how many share one Redis")
    parser.add_argument("--outage", action="store_true", help="Redis is killed for the middle third of the run")
    parser.add_argument("--seconds", type=int, help="how long riders ride; each scenario has a default")
    parser.add_argument("--full", action="store_true", help="surge: three minutes a run")
    parser.add_argument("--riders", type=int, help="surge and mixed: how many riders")
    parser.add_argument("--share", action="store_true", help="surge: a third run, whose shared limit has `share`")
    parser.add_argument("--chapter", action="store_true", help="surge: the experiment of a published chapter, for three minutes a run")
    parser.add_argument("--capacity", type=int, help="--chapter: requests a second that the API serves; default 800")
    parser.add_argument("--keys", type=int, default=1, help="--chapter: how many user IDs the riders share")
    parser.add_argument("--csv", type=Path, help="--chapter: the file that gets the table of endpoints")
    parser.add_argument("--rounds", type=int, default=3, help="scale: how often each point is measured")
    parser.add_argument("--page", action="store_true", help="with Locust's page, on a free port that is printed")
    parser.add_argument("--binary", type=Path, help="a gateway that is built, with loadtest-api beside it")
    parser.add_argument("--results", type=Path, default=HERE / "runs", help="surge, scale and shares: where the report goes; git ignores the default, loadtest/runs")
    parser.add_argument("--keep", action="store_true", help="keeps logs and records, also of a run that passes")
    parser.add_argument("--self-test", action="store_true", help="tests the models and judges themselves; needs no Locust")
    options = parser.parse_args()
    if not options.scenario and not options.self_test:
        parser.error("which scenario?")
    if (options.chapter or options.share) and options.scenario != "surge":
        parser.error("--chapter and --share are options of surge")
    if options.chapter and options.share:
        parser.error("--chapter has no shared limit")
    if min(options.gateways, options.keys, options.rounds, options.capacity or 1) < 1:
        parser.error("numbers must be at least 1")
    if options.store == "memory" and (options.gateways > 1 or options.outage):
        parser.error("several gateways, or an outage, need --store redis")
    options.store_is_chosen = options.store is not None or options.gateways > 1
    if options.store is None:
        options.store = "redis" if options.gateways > 1 or options.outage else "memory"
    return options


def with_locust():
    """Continues in an environment of its own if this Python has no Locust."""
    if importlib.util.find_spec("locust"):
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / f"tidegate-loadtest-{sys.version_info.major}.{sys.version_info.minor}"
    python, wanted, installed = home / "bin" / "python", HERE / "requirements.txt", home / "installed"
    if Path(sys.prefix).resolve() == home.resolve():
        sys.exit(f"error: {home} has no Locust; remove it, and try again")
    # An environment that was interrupted, or has older requirements, is made again.
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        print(f"installing Locust into {home}", flush=True)
        try:
            venv.create(home, with_pip=True, clear=True)
        except subprocess.CalledProcessError:
            shutil.rmtree(home)
            sys.exit("error: this Python has no pip to install Locust with (Debian, Ubuntu: apt-get install python3-venv)")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", wanted]
        if subprocess.run(install, check=False).returncode:
            sys.exit(2)
        shutil.copyfile(wanted, installed)
    os.execv(python, [str(python), *sys.argv])


if __name__ == "__main__":
    sys.exit(main())
