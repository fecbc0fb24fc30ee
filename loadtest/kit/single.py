"""One run of a scenario against gateways, with Redis or with an outage of Redis."""

import signal
import threading
import time
from types import SimpleNamespace

from kit import locust, records
from kit.processes import Processes, fetched, stop
from kit.verdict import Rules, Verdict
from scenarios import ALONE, EXACT

# The time after the return of Redis in which a gateway may still decide alone, in seconds.
BACK = 3


def run(scenario, folder, binaries, options):
    seconds = options.seconds or scenario.SECONDS
    with Processes(folder, binaries) as processes:
        _, api, arrivals = processes.api("api", **scenario.API)
        config, riders = scenario.prepare(api, processes, options)
        fleet = start_gateways(processes, config, options)
        plan = {
            "gateways": fleet.urls,
            "riders": riders,
            "patience": scenario.PATIENCE,
            "seconds": seconds,
            "extra": getattr(scenario, "EXTRA", {}),
        }
        print(f"{options.scenario}: {len(riders)} riders for {seconds} s, {shown(options)}", flush=True)
        outage = Outage(processes, fleet, seconds) if options.outage else None
        what = locust.run(processes, options.scenario, plan, users=len(riders), options=options)
        if outage:
            outage.thread.join()
        after = metrics(fleet)
    found = SimpleNamespace(
        requests=records.requests(what.requests),
        arrivals=records.arrivals(arrivals),
        notes=what.notes,
        outage=outage and outage.span,
        least=0.7 if options.outage else 0.95,
    )
    found.in_outage = lambda at: bool(found.outage) and found.outage[0] - 5e6 < at < found.outage[1] + 5e6
    verdict = Verdict()
    judge_counters(verdict, after, found, options)
    scenario.judge(verdict, Rules(config), found)
    print(verdict.text())
    print("passed" if verdict.passed else "FAILED")
    return verdict.passed


def start_gateways(processes, config, options):
    """Starts the gateways on the store that the options name."""
    fleet = SimpleNamespace(urls=[], admins=[], processes=[], redis=None, port=None)
    store = "memory"
    if options.store == "redis":
        fleet.redis, fleet.port = processes.redis()
        url = {"url": f"redis://127.0.0.1:{fleet.port}", "gateways": options.gateways}
        store = {"redis": {**url, **(ALONE if options.outage else EXACT)}}
    for number in range(options.gateways):
        process, url, admin = processes.gateway(f"gateway-{number + 1}", config, store)
        fleet.processes.append(process)
        fleet.urls.append(url)
        fleet.admins.append(admin)
    return fleet


class Outage:
    """Redis is killed for the middle third of a run, and comes back empty."""

    def __init__(self, processes, fleet, seconds):
        self.processes, self.fleet, self.third = processes, fleet, seconds / 3
        self.span = None
        self.thread = threading.Thread(target=self.happen, daemon=True)
        self.thread.start()

    def happen(self):
        time.sleep(self.third)
        began = time.time_ns() // 1000
        self.fleet.redis.send_signal(signal.SIGKILL)
        stop(self.fleet.redis)
        time.sleep(self.third)
        self.processes.redis(self.fleet.port)
        self.span = (began, time.time_ns() // 1000 + BACK * 1_000_000)


def metrics(fleet):
    return [fetched(f"{admin}/metrics") or "" for admin in fleet.admins]


def decided(pages):
    """Returns the number of verdicts by limit, verdict and decider, over all gateways."""
    total = {}
    for page in pages:
        for labels, value in records.counters(page, "tidegate_decisions_total").items():
            of = dict(labels)
            key = (of["limit"], of["verdict"], of["decided_by"])
            total[key] = total.get(key, 0) + int(value)
    return total


def judge_counters(verdict, pages, found, options):
    """Checks the gateways' own counters: `on_failure` decided in an outage, and the store at all other times."""
    total = decided(pages)
    alone = sum(many for (_, _, by), many in total.items() if by == "on_failure")
    if options.outage:
        verdict.say(alone, f"without Redis: {alone:,} decisions were made by on_failure")
    elif options.store == "redis":
        verdict.say(alone == 0, f"Redis decided, but for {alone:,} decisions")


def shown(options):
    store = "on one Redis" if options.store == "redis" else "on its own memory"
    many = "one gateway" if options.gateways == 1 else f"{options.gateways} gateways"
    return f"{many} {store}" + (", which is killed for a third of it" if options.outage else "")


