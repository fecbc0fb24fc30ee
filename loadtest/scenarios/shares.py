"""Members of a shared limit under unequal loads: with `share`, without it, and with a fixed cap per client.

The limit has 100 units, and refills 100 a second. Each row is one load. Its requests go to three routes at the same time: `bucket` has the
shared limit alone, `capped` also a bucket per client, and `divided` the shared limit with `share`. So all three see the same requests.
"""

import json
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from statistics import median
from types import SimpleNamespace

from comparison import measure
from kit import locust, machine, proof, records, single
from kit.limits import SECOND, Limit
from kit.processes import Processes, Trouble
from kit.verdict import Verdict

SECONDS, WARM_UP = 20, 5
RATE = 100
ROUTES = ("bucket", "capped", "divided")
API = {"workers": 64, "service_time": 0.001, "queue": 10_000}
GREEDY = "greedy"
# What is lent, of the limit; what a quiet member may be refused, of its requests; and how far parts may differ.
USED, REFUSED, APART = 0.95, 0.02, 0.1
# Most times that Redis may take with `share`, of the time without it, in so many rounds.
COSTS, ROUNDS = 1.5, 3


@dataclass
class Load:
    """The requests of one member, in requests a second: evenly, at random times, or `burst` at once."""

    name: str
    rate: float
    kind: str = "even"
    burst: int = 8
    begin: float = 0.0
    end: float = float("inf")

    def times(self, chance, seconds):
        end = min(self.end, seconds)
        step = (self.burst if self.kind == "burst" else 1) / self.rate
        at = self.begin + chance.random() * step
        while at < end:
            yield from [at] * (self.burst if self.kind == "burst" else 1)
            at += chance.expovariate(self.rate) if self.kind == "random" else step


@dataclass
class Row:
    title: str
    loads: list
    # The refill of a fixed cap per client, and its capacity.
    cap: tuple = (3, "3/s")
    weights: dict = field(default_factory=dict)
    # Whether members other than the greedy one ask for less than their part.
    are_quiet: bool = True
    least_jain: float = 0.9
    capacity: int = RATE


def quiet(many, rate, **more):
    return [Load(f"member-{number}", rate, **more) for number in range(many)]


def rows(seconds):
    greedy = Load(GREEDY, 1000, "random")
    come_and_go = [Load(f"member-{n}", 4, begin=n * seconds / 30, end=n * seconds / 30 + seconds / 3) for n in range(30)]
    both = [Load("member-0", 400, "random"), Load("member-1", 400, "random")]
    return [
        Row("30 members of 2/s, one of 1,000/s", [*quiet(30, 2), greedy]),
        Row("30 members of 4/s, one of 1,000/s", [*quiet(30, 4), greedy], are_quiet=False),
        Row("one member of 1,000/s, alone", [greedy]),
        Row("two members of 400/s, of weight 1 and 4", both, (50, "50/s"), {"member-1": 4}, are_quiet=False),
        Row("30 members of 4/s who come and go, one of 1,000/s", [*come_and_go, greedy], least_jain=0.85),
        Row("30 members of 2/s in bursts of 4, one of 1,000/s", [*quiet(30, 2, kind="burst", burst=4), greedy]),
        Row("the same in bursts of 8", [*quiet(30, 2, kind="burst"), greedy], are_quiet=False, least_jain=0.85),
        Row("the same in bursts of 8, capacity 200", [*quiet(30, 2, kind="burst"), greedy], capacity=2 * RATE),
        Row("10,000 members of 0.02/s, one of 500/s", [*quiet(10_000, 0.02, kind="random"), Load(GREEDY, 500, "random")], (1, "1/m"), are_quiet=False, least_jain=0),
    ]


def run(folder, binaries, options):
    seconds = options.seconds or SECONDS
    results = SimpleNamespace(seconds=seconds, machine=machine.described(binaries), load=machine.load(), tables={})
    verdict = Verdict()
    fleets = [("memory", 1), ("redis", 2)]
    if options.store_is_chosen:
        fleets = [(options.store, options.gateways)]
    for store, gateways in fleets:
        chosen = SimpleNamespace(store=store, gateways=gateways, outage=False)
        where = single.shown(chosen)
        print(f"shares: {WARM_UP + seconds} s a row, {where}", flush=True)
        table = results.tables[where] = []
        for nth, row in enumerate(rows(seconds)):
            done = ride(folder / f"{store}-{nth}", binaries, chosen, row, WARM_UP + seconds, nth)
            judge(verdict, where, row, done)
            table.append((row, done))
            shown = ", ".join(f"{route} {figures.used:.0%} used" for route, figures in done.routes.items())
            print(f"{row.title}: {shown}", flush=True)
    results.costs = costs(folder, binaries, verdict, seconds) if "redis" in dict(fleets) else {}
    path = write(results, verdict, options.results, date.today().isoformat())
    print(verdict.text())
    print("passed" if verdict.passed else "FAILED")
    print(f"the report: {path}")
    return verdict.passed


def config(api, row):
    shared = {"token_bucket": {"capacity": row.capacity, "refill": f"{RATE}/s"}, "per": []}
    capacity, refill = row.cap
    limits = {
        "bucket": shared,
        "capped": shared,
        "cap": {"token_bucket": {"capacity": capacity, "refill": refill}},
        "divided": {**shared, "share": {"by": ["client"], "weight": "plan"}},
    }
    plans = {
        f"of-{name}": {"members": [f"user_id:{name}"], "divided": {"weight": weight}} for name, weight in row.weights.items()
    }
    of = {"bucket": ["bucket"], "capped": ["cap", "capped"], "divided": ["divided"]}
    return {
        "trusted_proxies": ["127.0.0.1"],
        "clients": [{"user_id": {}}, {"ip": {}}],
        "plans": plans,
        "limits": limits,
        "routes": [{"name": route, "path": f"/api/{route}", "upstream": api, "limits": of[route]} for route in ROUTES],
    }


def costs(folder, binaries, verdict, seconds):
    """Measures the processor time of Redis for a request, in microseconds, with `share` and without it."""
    loads = {
        "idle: 1,000 members of 1/s, and units for all": Row("", quiet(1000, 1), capacity=10**6),
        "overloaded: 30 members of 2/s, one of 1,000/s": rows(seconds)[0],
    }
    options = SimpleNamespace(store="redis", gateways=2, outage=False)
    found = {}
    for title, row in loads.items():
        spent = {"bucket": [], "divided": []}
        for number in range(ROUNDS):
            for route, values in spent.items():
                print(f"cost, round {number + 1} of {ROUNDS}: {title}, {route}", flush=True)
                done = ride(folder / f"cost-{len(found)}-{number}-{route}", binaries, options, row, seconds, number, [route])
                values.append(done.redis)
        found[title] = spent
        ratio = median(spent["divided"]) / median(spent["bucket"])
        verdict.say(ratio <= COSTS, f"{title}: Redis takes {ratio:.2f} times the time of the bucket alone; {COSTS} at most are asked for")
    return found


def schedule(row, seconds, seed):
    """Returns rows of microseconds and the number of a load, in the order of their times."""
    chance = random.Random(seed)
    due = [(int(at * SECOND), number) for number, load in enumerate(row.loads) for at in load.times(chance, seconds)]
    return sorted(due)


def ride(folder, binaries, options, row, seconds, seed, to=ROUTES):
    """Sends the requests of a row to some routes, and returns the figures of each route."""
    folder.mkdir()
    due = schedule(row, seconds, seed)
    with Processes(folder, binaries) as processes:
        _, api, arrivals = processes.api("api", **API)
        fleet = single.start_gateways(processes, config(api, row), options)
        plan = {"gateways": fleet.urls, "clients": [load.name for load in row.loads], "due": due}
        plan |= {"paths": [f"/api/{route}" for route in to], "requests": str(folder / "requests.tsv")}
        path = folder / "plan.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        before = measure.processor(fleet.redis.pid) if fleet.redis else 0
        client = processes.start("client", [sys.executable, "-m", "kit.scheduled", path], env={"PYTHONPATH": str(locust.HERE)})
        client.wait(seconds + 60)
        if client.returncode:
            raise Trouble(f"the client failed: see {client.log}")
        spent = measure.processor(fleet.redis.pid) - before if fleet.redis else 0
    requests, arrived = records.requests(folder / "requests.tsv"), records.arrivals(arrivals)
    limit = Limit.of("divided", config("", row)["limits"]["divided"])
    routes = {}
    for route in to:
        path = f"/api/{route}"
        spans = [(arrival.sent, arrival.at) for arrival in arrived if arrival.path == path]
        routes[route] = figures(row, [request for request in requests if request.path == path], seconds)
        routes[route].beyond = proof.too_many(limit, spans)
    statuses = Counter(request.status for request in requests)
    return SimpleNamespace(routes=routes, statuses=statuses, redis=spent / len(requests) * 1e6)


def figures(row, requests, seconds):
    """Returns what members got of one route after the warm-up."""
    first = min(request.sent for request in requests)
    counted = [request for request in requests if request.sent >= first + WARM_UP * SECOND]
    asked, got = Counter(), Counter()
    fair = Counter()
    slices = {}
    for request in counted:
        name = request.client.removeprefix("user_id:")
        asked[name] += 1
        got[name] += request.status == 200
        slices.setdefault((request.sent - first) // (4 * SECOND), Counter())[name] += 1
    for demand in slices.values():
        fair.update(parts(demand, 4 * RATE, row.weights))
    span = seconds - WARM_UP
    others = [name for name in asked if name != GREEDY]
    portions = [got[name] / fair[name] for name in asked]
    quiet_asked, quiet_got = sum(asked[name] for name in others), sum(got[name] for name in others)
    return SimpleNamespace(
        asked=asked,
        got=got,
        total=got.total() / span,
        demand=asked.total() / span,
        used=got.total() / min(asked.total(), RATE * span),
        quiet=quiet_got / quiet_asked if quiet_asked else None,
        worst=min((got[name] / asked[name] for name in others), default=None),
        greedy=got[GREEDY] / span if asked[GREEDY] else None,
        served=sum(got[name] > 0 for name in asked),
        jain=sum(portions) ** 2 / (len(portions) * sum(portion**2 for portion in portions)),
    )


def parts(demand, units, weights):
    """Divides units so that nobody gets more than its demand, and the others get equal parts by weight (max-min fairness)."""
    given, left, open_ = {}, float(units), dict(demand)
    while open_:
        whole = sum(weights.get(name, 1) for name in open_)
        level = left / whole
        content = {name: asked for name, asked in open_.items() if asked <= level * weights.get(name, 1)}
        if not content:
            return given | {name: level * weights.get(name, 1) for name in open_}
        given |= content
        left -= sum(content.values())
        open_ = {name: asked for name, asked in open_.items() if name not in content}
    return given


def judge(verdict, where, row, done):
    divided = done.routes["divided"]
    about = f"{row.title}, {where}"
    others = {status: many for status, many in done.statuses.items() if status not in (200, 429)}
    verdict.say(not others, f"{about}: {done.statuses.total():,} requests, with other answers than 200 and 429: {others or 'none'}")
    beyond = sum(of.beyond for of in done.routes.values())
    verdict.say(beyond == 0, f"{about}: {beyond:,} requests of the three routes beyond what the limit allows")
    verdict.say(divided.used >= USED, f"{about}: {divided.used:.1%} of the limit is used; {USED:.0%} are asked for")
    if row.are_quiet and divided.quiet is not None:
        verdict.say(
            1 - divided.quiet < REFUSED,
            f"{about}: {1 - divided.quiet:.2%} of the requests of quiet members are refused; less than {REFUSED:.0%} is asked for",
        )
    verdict.say(divided.jain >= row.least_jain, f"{about}: Jain's index is {divided.jain:.3f}; {row.least_jain} is asked for")
    if row.weights:
        heavy, light = divided.got["member-1"], divided.got["member-0"]
        verdict.say(abs(heavy / light / 4 - 1) <= APART, f"{about}: the one of weight 4 gets {heavy / light:.2f} times as much")
    if len(row.loads) > 1000:
        part = divided.got[GREEDY] / divided.got.total()
        verdict.say(part < 0.1, f"{about}: the greedy one gets {part:.1%} of what is admitted")


def write(results, verdict, folder, day):
    """Writes the report, and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"# Shares of a limit, {day}",
        "",
        f"    {machine.command()}",
        "",
        f"A shared limit of {RATE} units that refills {RATE} a second. Each row is a load of {WARM_UP + results.seconds} s, and the figures "
        f"are from the last {results.seconds} s. The same requests go to three routes: the shared bucket alone; the bucket and a fixed cap "
        "per client; the bucket with `share`. *Others* is the part of the requests of all but the greedy member that is admitted, and "
        "*worst* that of the member with the smallest part. Jain's index is 1 if each member gets its max-min fair part, which is computed "
        "for each 4 s.",
        "",
    ]
    for where, table in results.tables.items():
        lines += [f"## {where[0].upper()}{where[1:]}", ""]
        lines += ["| load | limit | admitted | used | others | worst | greedy | members served | Jain |"]
        lines += ["|---|---|--:|--:|--:|--:|--:|--:|--:|"]
        for row, done in table:
            for route, one in done.routes.items():
                cap = f", cap {row.cap[1]}" if route == "capped" else ""
                cells = [row.title if route == ROUTES[0] else "", f"{route}{cap}", f"{one.total:.1f}/s", f"{one.used:.0%}"]
                cells += [part(one.quiet), part(one.worst), "–" if one.greedy is None else f"{one.greedy:.1f}/s"]
                cells += [f"{one.served:,} of {len(one.asked):,}", f"{one.jain:.3f}"]
                lines += ["| " + " | ".join(cells) + " |"]
        lines += [""]
    if results.costs:
        lines += ["## Redis", "", "The processor time of Redis for a request, over two gateways, in microseconds. A gateway answers a part of the refusals "]
        lines[-1] += f"from its memory, without Redis. The median of {ROUNDS} rounds, and all rounds."
        lines += ["", "| load | the bucket alone | with `share` | times |", "|---|--:|--:|--:|"]
        for title, spent in results.costs.items():
            alone, shared = (f"{median(spent[of]):.1f} ({', '.join(f'{one:.1f}' for one in spent[of])})" for of in ("bucket", "divided"))
            lines += [f"| {title} | {alone} | {shared} | {median(spent['divided']) / median(spent['bucket']):.2f} |"]
        lines += [""]
    lines += ["## Verdict: " + ("passed" if verdict.passed else "failed"), ""]
    lines += [f"- {'' if is_so else '**not so:** '}{sentence}" for is_so, sentence in verdict.findings]
    lines += ["", "## The machine", ""]
    lines += [f"- {what}: {value}" for what, value in results.machine.items()]
    lines += [f"- load before: {results.load:.1f}", ""]
    path = folder / f"{day}-shares.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def part(value):
    return "–" if value is None else f"{value:.1%}"
