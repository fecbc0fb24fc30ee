"""The experiment of a published chapter on a ride-hailing API: the same riders without limits, and with token buckets.

The API serves 800 requests a second. 2,000 riders join at 100 a second, and wait 0.1 to 0.5 s after each answer. Rides and fares
have a bucket each. All riders share the user IDs of `--keys`. A rider sends at most ten requests a second, so a bucket for each rider
would refuse none. Each rider has an address of its own, and the judge counts the served riders by these addresses.
"""

import os
from datetime import date
from types import SimpleNamespace

from kit import endpoints, machine, single
from kit.verdict import Rules, Verdict, judge_answers, judge_limits, judge_record
from scenarios import rider, surge

SECONDS, RIDERS, CAPACITY = 180, 2000, 800
PATIENCE = 60  # seconds until a rider gives up, the default of Locust's fast client
QUEUE = 1000  # requests that may wait for a worker of the API, its default
SERVICE_TIME = 0.025  # seconds
PROBES = 40  # a second
PLACE = {"lat": 1.3521, "lng": 103.8198}
BODIES = {
    "/api/rides/request": {"rider_id": "r-1001", "pickup": PLACE, "dropoff": {"lat": 1.2903, "lng": 103.8519}, "tier": "standard"},
    "/api/fares/estimate": {"pickup": PLACE, "dropoff": {"lat": 1.2903, "lng": 103.8519}, "tier": "standard"},
}
BUCKET = {"token_bucket": {"capacity": 20, "refill": "10/s"}}
LIMITS = {"ride-burst": BUCKET, "fare-burst": BUCKET}

# The aims. The first three are the chapter's own figures with limits: milliseconds, a share, milliseconds.
THROUGH_IN, MAY_FAIL, REFUSED_IN = 680, 0.001, 10
TIMES_LOWER = 10
SATURATED = 0.9  # of the capacity of the API: the least rate without limits
RIDERS_FOUND = (0.25, 1.05)  # of the riders, by the law of `endpoints.riders_found`


def run(folder, binaries, options):
    seconds, count = options.seconds or SECONDS, options.riders or RIDERS
    capacity = options.capacity or CAPACITY
    results = SimpleNamespace(seconds=seconds, riders=count, capacity=capacity, keys=options.keys, options=options)
    results.machine, results.command, results.probes = machine.described(binaries), machine.command(), PROBES
    workers = max(1, round(capacity * SERVICE_TIME))
    results.api = {"workers": workers, "service_time": workers / capacity, "queue": QUEUE}
    results.whole = seconds + 5
    extra = {"bodies": BODIES}
    results.experiment = SimpleNamespace(
        riders="chapter",
        cores=cores(),
        config=config,
        plan=lambda fleet: {
            "gateways": fleet.urls,
            "riders": riders(count, options.keys),
            "patience": PATIENCE,
            "seconds": seconds,
            "extra": extra,
        },
        probing={
            "riders": [surge.user("prober")],
            "rate": PROBES,
            "asks": [["POST", path, BODIES[path]] for path in [surge.PATHS[0]] * 3 + [surge.PATHS[1]]],
        },
    )
    print(f"chapter: twice {seconds} s, {single.shown(options)}; the API serves {capacity:,} a second", flush=True)
    results.off = surge.ride(folder, binaries, options, results, "off")
    results.on = surge.ride(folder, binaries, options, results, "on")
    verdict = judge(results)
    path = endpoints.write(results, verdict, options.results, date.today().isoformat(), options.csv)
    print(verdict.text())
    print("passed" if verdict.passed else "FAILED")
    print(f"the report: {path}")
    return verdict.passed


def cores():
    """Returns the cores of Locust, and of all other processes, so that Locust does not delay the client that measures refusals."""
    mine = sorted(os.sched_getaffinity(0))
    return {"system": set(mine[:-1]), "load": {mine[-1]}} if len(mine) > 1 else None


def config(api, limited):
    routes = [{"name": path.split("/")[2], "path": path, "upstream": api} for path in surge.PATHS]
    if limited:
        routes = [{**route, "limits": [limit]} for route, limit in zip(routes, LIMITS)]
    return {
        "trusted_proxies": ["127.0.0.1"],
        "clients": [{"user_id": {"header": "X-User-Id"}}, {"ip": {}}],
        "limits": LIMITS if limited else {},
        "routes": routes,
    }


def riders(count, keys):
    found = []
    for number in range(count):
        address, user = f"198.18.{number // 250}.{number % 250 + 1}", f"caller-{number % keys}"
        found.append(rider(f"user_id:{user}", {"X-User-Id": user, "X-Forwarded-For": address}, address))
    return found


def judge(results):
    verdict = Verdict()
    off, on = results.off, results.on
    rules = Rules(on.config)
    figures = {name: endpoints.of(run, results) for name, run in (("off", off), ("on", on))}
    results.figures = figures
    judge_answers(verdict, rules, on.requests, may_fail=MAY_FAIL * len(on.arrivals))
    judge_limits(verdict, rules, on.requests, on.arrivals, on.outage, 0.7 if on.outage else 0.9)
    judge_record(verdict, on.requests, on.arrivals)
    single.judge_counters(verdict, on.pages, on, results.options)
    lost = off.dropped + on.dropped
    verdict.say(lost == 0, f"the access logs, which the gateway's times are from, lost {lost:,.0f} lines")
    judge_figures(verdict, figures, results)
    return verdict


def judge_figures(verdict, figures, results):
    """Checks the figures against the limits, against each other, and against the chapter's figures with limits."""
    off, on = figures["off"], figures["on"]
    allowed = admits(results.keys, on["seconds"])
    verdict.say(
        0.9 * min(allowed, on["sent"]) <= on["let_through"] <= allowed,
        f"with limits {on['let_through']:,} requests of riders were let through; {results.keys} × 2 buckets allow {allowed:,} "
        f"in {on['seconds']:.0f} s",
    )
    for name, run in figures.items():
        found, (least, most) = run["riders_found"], RIDERS_FOUND
        verdict.say(
            least * results.riders <= found <= most * results.riders,
            f"limits {name}: rate × (mean time + mean wait) gives {found:,.0f} of {results.riders:,} riders; wanted: "
            f"{least:.0%} to {most:.0%}",
        )
    verdict.say(
        off["per_second"] >= SATURATED * results.capacity,
        f"without limits riders sent {off['per_second']:,.0f} requests a second; the API serves {results.capacity:,}, and "
        f"{SATURATED:.0%} of it is wanted",
    )
    before, after = off["through_ms"]["p99"], on["through_ms"]["p99"]
    verdict.say(
        after <= THROUGH_IN and before >= TIMES_LOWER * after,
        f"p99 of requests that were let through: {before:,.0f} ms without limits, {after:,.1f} ms with them; wanted: {THROUGH_IN} ms "
        f"or less, and {TIMES_LOWER} times lower",
    )
    verdict.say(on["failed"] <= MAY_FAIL, f"with limits {on['failed']:.2%} of them failed; wanted: {MAY_FAIL:.1%} or less")
    refused = on["probe_refused_ms"]
    verdict.say(
        refused and refused["p99"] <= REFUSED_IN,
        f"p99 of refusals, by the separate client: {refused['p99'] if refused else 0:.1f} ms; wanted: {REFUSED_IN} ms or less",
    )


def admits(keys, seconds):
    """Returns the most requests that the two buckets of each key can admit."""
    return 2 * keys * (20 + int(10 * seconds))
