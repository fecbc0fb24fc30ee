"""Many times what the API can do, without limits and with them, and a report of both.

Rides and fares have two limits: a bucket per rider, and a shared bucket a little below the capacity of the API. One rider
in twenty is greedy and does not wait. First there is a calm time, in which only the riders' own buckets refuse requests.
Then all riders come, and the shared bucket refuses requests, too.
"""

import json
import sys
import time
from datetime import date
from math import ceil
from types import SimpleNamespace

from kit import figures, locust, machine, records, report, single
from kit.processes import Processes
from kit.verdict import Rules, Verdict, judge_answers, judge_limits, judge_record
from scenarios import rider

SECONDS, FULL = 60, 180
RIDERS, MOST_RIDERS = 2000, 6000
GREEDY = 20  # one in so many does not wait
RAMP = 1 / 3  # of the run, in which all others join
PATIENCE = 10  # seconds until a rider gives up
# The number of riders, as a multiple of the riders that the API can serve before they give up. A rider who waits sends no
# other request, so fewer riders would only wait.
OVERWHELMED = 1.3
PATHS = ["/api/rides/request", "/api/fares/estimate"]
ASKS = [("POST", PATHS[0])] * 3 + [("GET", PATHS[1])]
PROBES = 10  # a second
# The work that may wait for the API's workers, in seconds.
QUEUE_SECONDS = 15
SERVICE_TIME = 0.025  # about, in seconds
# The requests of a rider in a second when answers take no time: the mean wait is 0.3 s.
DEMAND = 1 / 0.3

# The aims for a run with limits.
TIMES_LOWER, MAY_FAIL, REFUSED_IN = 50, 0.005, 10_000


def run(folder, binaries, options):
    seconds = options.seconds or (FULL if options.full else SECONDS)
    results = SimpleNamespace(seconds=seconds, machine=machine.described(binaries), options=options)
    results.greedy, results.patience, results.probes = GREEDY, PATIENCE, PROBES
    print(f"surge: twice {seconds} s, {single.shown(options)}; calibrating", flush=True)

    # Each ride ends when the last rider has an answer or gives up.
    results.whole = seconds + PATIENCE
    results.offered = calibrate(folder, binaries, options, options.riders or RIDERS, later=2 * results.whole)
    needed = ceil(results.offered / 10 * PATIENCE * OVERWHELMED / 100) * 100
    count = options.riders or min(max(RIDERS, needed), MOST_RIDERS)
    capacity = max(20, min(results.offered / 10, count / (PATIENCE * OVERWHELMED)))
    results.riders = count
    workers = max(2, round(capacity * SERVICE_TIME))
    results.api = {"workers": workers, "service_time": workers / capacity, "queue": int(QUEUE_SECONDS * capacity)}
    results.capacity = capacity
    # The first riders are few enough that the API serves all but the greedy rider.
    spare = 0.9 * capacity - PROBES - 10
    calm_riders = max(2, int(0.8 * spare / DEMAND))
    results.extra = {"calm": seconds // 6, "calm_riders": calm_riders, "spawn_rate": count / (RAMP * seconds)}
    print(
        f"{count:,} riders would send {results.offered:,.0f} requests a second if all were answered at once; the API can do "
        f"{capacity:,.0f} a second",
        flush=True,
    )

    results.experiment = SimpleNamespace(
        riders="surge",
        cores=None,
        config=lambda api, limited: config(api, capacity, limited),
        plan=lambda fleet: plan_of(fleet, count, seconds, results.extra),
        probing={"riders": [user(f"prober-{number}") for number in range(PROBES)], "rate": PROBES, "asks": ASKS},
    )
    results.off = ride(folder, binaries, options, results, "off")
    results.on = ride(folder, binaries, options, results, "on")
    if options.share:
        results.experiment.config = lambda api, _: config(api, capacity, limited=True, share=True)
        results.share = ride(folder, binaries, options, results, "share")
    verdict = judge(results)
    path = report.write(results, verdict, options.results, date.today().isoformat())
    print(verdict.text())
    print("passed" if verdict.passed else "FAILED")
    print(f"the report: {path}")
    return verdict.passed


def config(api, capacity, limited, share=False):
    limits = {
        "ride-burst": {"token_bucket": {"capacity": 20, "refill": "10/s"}},
        "matching": {
            "token_bucket": {"capacity": max(1, round(capacity / 10)), "refill": f"{int(capacity * 0.9)}/s"},
            "per": [],
            **({"share": {"by": ["client"]}} if share else {}),
        },
    }
    routes = [{"name": path.split("/")[2], "path": path, "upstream": api} for path in PATHS]
    if limited:
        routes = [{**route, "limits": list(limits)} for route in routes]
    return {
        "trusted_proxies": ["127.0.0.1"],
        "clients": [{"user_id": {"header": "X-User-Id"}}, {"ip": {}}],
        "limits": limits if limited else {},
        "routes": routes,
    }


def riders(count):
    return [user(f"rider-{number}", greedy=number % GREEDY == 0) for number in range(count)]


def user(name, greedy=False):
    return rider(f"user_id:{name}", {"X-User-Id": name}, greedy=greedy)


def calibrate(folder, binaries, options, count, later):
    """Returns the requests that riders send in a second on this machine without waiting."""
    seconds, measured = 16, 8
    with Processes(folder, binaries) as processes:
        _, api, _ = processes.api("calibration-api", workers=64, service_time=0.001, queue=10_000)
        fleet = single.start_gateways(processes, config(api, 100, limited=True), options)
        extra = {"calm": 1, "calm_riders": 1, "spawn_rate": count / 4}
        plan = plan_of(fleet, count, seconds, extra)
        ridden = locust.run(processes, "surge", plan, count, options, name="calibration", later=later)
    sent = sorted(request.sent for request in records.requests(ridden.requests))
    end = sent[-1] - 1_000_000
    return sum(end - measured * 1_000_000 < at <= end for at in sent) / measured


def plan_of(fleet, count, seconds, extra):
    plan = {"gateways": fleet.urls, "riders": riders(count), "patience": PATIENCE, "seconds": seconds}
    return {**plan, "extra": extra}


def ride(folder, binaries, options, results, name):
    """Runs one ride of all riders, with the prober beside them."""
    limited = name != "off"
    print(f"limits {name}: {results.seconds} s", flush=True)
    load, of = machine.load(), results.experiment
    with Processes(folder, binaries) as processes, machine.placed(of.cores) as place:
        place("system")
        _, api, arrivals = processes.api(f"{name}-api", **results.api)
        written = of.config(api, limited)
        fleet = single.start_gateways(processes, written, options)
        outage = single.Outage(processes, fleet, results.seconds) if options.outage and limited else None
        plan = of.plan(fleet)
        probes = folder / f"{name}-probes.tsv"
        probing = {**plan, **of.probing, "requests": str(probes)}

        def beside():
            place("system")
            probe(processes, name, probing)

        started = time.time_ns() // 1000
        later = 0 if limited else results.whole
        place("load")
        run = {"name": name, "during": beside, "later": later, "steps_back": of.cores is None}
        ridden = locust.run(processes, of.riders, plan, results.riders, options, **run)
        if outage:
            outage.thread.join()
        pages = single.metrics(fleet)
    logs = [process.log for process in fleet.processes]
    ridden, probed = records.requests(ridden.requests), records.requests(probes)
    return SimpleNamespace(
        load=load,
        ridden=ridden,
        config=written,
        started=started,
        requests=sorted(ridden + probed),
        probed=probed,
        arrivals=records.arrivals(arrivals),
        log=records.access_log(logs),
        pages=pages,
        outage=outage and outage.span,
        dropped=sum(sum(records.counters(page, "tidegate_access_log_dropped_lines_total").values()) for page in pages),
    )


def probe(processes, name, plan):
    path = processes.folder / f"{name}-prober.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    processes.start(f"{name}-prober", [sys.executable, "-m", "kit.prober", path], env={"PYTHONPATH": str(locust.HERE)})


def judge(results):
    verdict = Verdict()
    off, on = results.off, results.on
    rules = Rules(on.config)
    failed = [line for line in figures.let_through(on) if line.status != 200]
    judge_answers(verdict, rules, on.requests, may_fail=MAY_FAIL * len(figures.let_through(on)))
    judge_limits(verdict, rules, on.requests, on.arrivals, on.outage, 0.7 if on.outage else 0.9)
    judge_record(verdict, on.requests, on.arrivals)
    single.judge_counters(verdict, on.pages, on, results.options)

    lost = off.dropped + on.dropped
    verdict.say(lost == 0, f"the access logs, which the times are from, lost {lost:,.0f} lines")
    worst = min((allowed - got for _, _, got, allowed in figures.per_client(on, rules)), default=0)
    verdict.say(worst >= 0, f"per rider: nobody got more than their bucket allows; the closest had {worst} to spare")
    by_limit = figures.refused_by(on)
    for name in rules.limits:
        verdict.say(by_limit.get(name), f"{name} was seen to act: it refused {by_limit.get(name, 0):,}")
    offered = in_surge(results, on)
    verdict.say(
        offered >= 5 * results.capacity,
        f"the load: {offered:,.0f} requests a second in the surge, {offered / results.capacity:.1f} times what the API can do",
    )
    if results.options.share:
        judge_share(verdict, results)
    before = records.share([line.total for line in figures.waited(off)], 0.99)
    after = records.share([line.total for line in figures.waited(on)], 0.99)
    verdict.say(
        after and before / after >= TIMES_LOWER,
        f"p99 of the waiting for the API: {before / 1000:,.0f} ms without limits, {after / 1000:,.1f} ms with them, "
        f"{before / after:,.0f} times lower; {TIMES_LOWER} are asked for",
    )
    share = len(failed) / max(1, len(figures.let_through(on)))
    verdict.say(share < MAY_FAIL, f"of what was let through {share:.2%} failed; less than {MAY_FAIL:.1%} is asked for")
    refused = records.share([line.total for line in on.log if line.status == 429], 0.99)
    verdict.say(
        refused and refused < REFUSED_IN,
        f"p99 of refusals by the gateway's clock: {(refused or 0) / 1000:,.2f} ms; less than {REFUSED_IN // 1000} ms is asked for",
    )
    return verdict


def judge_share(verdict, results):
    """Checks that `share` serves more of those who ask often, and less of the greedy, and that the limits still hold."""
    on, share = results.on, results.share
    rules = Rules(share.config)
    judge_answers(verdict, rules, share.requests, may_fail=MAY_FAIL * len(figures.let_through(share)))
    judge_limits(verdict, rules, share.requests, share.arrivals, share.outage, 0.7 if share.outage else 0.9)
    before, after = (figures.admitted_riders(run, results.greedy) for run in (on, share))
    verdict.say(
        after["often"] > before["often"] and after["greedy"] < before["greedy"],
        f"with share: {after['often']:.1%} of the clients who asked often got an answer, and without it {before['often']:.1%}; the greedy "
        f"twentieth got {after['greedy']:.1%} of the answers, and without it {before['greedy']:.1%}",
    )


def surge_begins(results):
    """Returns the second from which all riders are there."""
    return results.extra["calm"] + RAMP * results.seconds


def in_surge(results, run):
    """Returns the requests a second while all riders were there."""
    begin, end = (figures.first(run) + seconds * 1e6 for seconds in (surge_begins(results), results.seconds))
    many = sum(begin <= request.sent < end for request in run.requests)
    return many / max(1, results.seconds - surge_begins(results))
