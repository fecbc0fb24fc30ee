"""The figures of `run.py scale`: the aims, and the page, the chart and the file made from them."""

import json
import statistics

from comparison.results import table
from kit import charts
from kit.verdict import Verdict

STORES = ("memory", "redis")
NAMED = {"normal": 0.5, "peak": 0.8, "extreme": 1.25}
COLOURS = {"memory": "#1e8449", "redis": "#1f5fa8"}
# A gateway has broken if it carries less than this share of the offered load, or if p99 is above this number of milliseconds.
CARRIES, BROKEN_MS = 0.95, 100
# The aims: the least load at which a gateway may break, and the greatest ratios of costs.
HOLDS, CLIENTS_COST, GATEWAYS_COST, CLIENT_BUSY = 0.65, 1.5, 1.6, 0.98


def median(rounds):
    return {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}


def ratio(rounds, base, key):
    """Returns the median of the ratios of each round: a slow moment of the machine changes both figures of a round."""
    return statistics.median(one[key] / other[key] for one, other in zip(rounds, base) if other[key]) if base[0][key] else None


def breaks(results, store):
    """Returns the first share of the top rate at which the gateway has broken, or None."""
    for share in results.steps:
        of = median(results.curve[store, share])
        if of["carried"] < CARRIES * of["offered"] or of["p99_ms"] > BROKEN_MS:
            return share
    return None


def verdict(results):
    found = Verdict()
    for store in STORES:
        share = breaks(results, store)
        said = f"at {share:.0%} of the top rate" if share else "at no offered load"
        found.say(share is None or share > HOLDS, f"{store}: the gateway breaks {said}; wanted: above {HOLDS:.0%}")
        calm = [share for share in results.steps if share <= HOLDS]
        lost = sum(of["unanswered"] for share in calm for of in results.curve[store, share])
        found.say(lost == 0, f"{store}: {lost:,} requests without an answer up to {HOLDS:.0%}; wanted: 0")
        busy = max(median(results.curve[store, share])["client_busy"] for share in calm)
        said = f"{store}: the client was busy for {busy:.0%} of the time up to {HOLDS:.0%}"
        found.say(busy < CLIENT_BUSY, f"{said}; wanted: below {CLIENT_BUSY:.0%}")
        base = results.clients[store, 1]
        for (of, clients), rounds in results.clients.items():
            if of == store and clients > 1:
                times = ratio(rounds, base, "cpu_us")
                found.say(
                    times <= CLIENTS_COST,
                    f"{store}: {clients:,} clients take {times:.2f} times the gateway's CPU time of one; wanted: {CLIENTS_COST} or less",
                )
    for many, rounds in results.gateways.items():
        if many > 1:
            times = ratio(rounds, results.gateways[1], "cpu_us")
            found.say(
                times <= GATEWAYS_COST,
                f"{many} gateways on one Redis take {times:.2f} times the CPU time of one per request; wanted: {GATEWAYS_COST} or less",
            )
    return found


def write(results, verdict, folder, day):
    """Writes all three, and returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{day}-scale.svg").write_text(chart(results), encoding="utf-8")
    page = folder / f"{day}-scale.md"
    page.write_text(page_of(results, verdict, day), encoding="utf-8")
    whole = {
        "date": day,
        "command": results.command,
        "machine": results.machine,
        "versions": results.versions,
        "cores": results.cores,
        "load_before": results.load_before,
        "passed": verdict.passed,
        "verdict": [{"is_so": is_so, "sentence": sentence} for is_so, sentence in verdict.findings],
        "seconds": results.seconds,
        "top_per_second": results.top,
        "breaks_at": {store: breaks(results, store) for store in STORES},
        "curve": listed(results.curve, ("store", "share")),
        "clients": listed(results.clients, ("store", "clients")),
        "gateways": listed(results.gateways, ("gateways",)),
    }
    (folder / f"{day}-scale.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return page


def listed(points, names):
    found = []
    for key, rounds in points.items():
        values = key if isinstance(key, tuple) else (key,)
        found.append({**dict(zip(names, values)), "median": median(rounds), "rounds": rounds})
    return found


def chart(results):
    lines = []
    for store in STORES:
        points = [median(results.curve[store, share]) for share in results.steps]
        lines.append((f"p99, {store}", COLOURS[store], [(of["offered"] / 1000, of["p99_ms"]) for of in points]))
    return charts.chart("p99 over the offered load, in thousand requests a second", "ms", lines, along="k")


def page_of(results, verdict, day):
    lines = [
        f"# Latency over the offered load, {day}",
        "",
        f"Command: `{results.command}`. " + ". ".join(f"Core {core}: {what}" for what, core in results.cores.items()) + ". "
        f"The client sends requests at random times, and does not wait for answers. It has {results.connections} connections. Each point is "
        f"measured in {results.rounds} round{'s' if results.rounds > 1 else ''}, for {results.seconds} s each. Figures and ratios are medians "
        "of the rounds.",
        "",
        "The top rate is the rate at which each connection sends its next request as soon as the answer is there: "
        + ", ".join(f"{results.top[store]:,.0f} a second with {store}" for store in STORES)
        + f". A gateway has broken if it carries less than {CARRIES:.0%} of the offered load, or if p99 is above {BROKEN_MS} ms.",
        "",
        f"![p99 over the offered load]({day}-scale.svg)",
        "",
        "## Normal, peak and extreme load",
        "",
        *table(
            ["store, load", "of the top rate", *HEAD],
            [row(f"{store}, {name}", f"{share:.0%}", results.curve[store, share]) for store in STORES for name, share in NAMED.items()],
        ),
        "",
        "## Until it breaks",
        "",
        *table(
            ["store", "of the top rate", *HEAD],
            [row(store, f"{share:.0%}", results.curve[store, share]) for store in STORES for share in results.steps],
        ),
        "",
        *(f"With {store} the gateway breaks {where(breaks(results, store))}." for store in STORES),
        "",
        f"## More clients, at {results.steady:.0%} of the top rate",
        "",
        *table(
            ["store", "clients", *HEAD, *COSTS],
            [
                row(store, f"{clients:,}", rounds) + costs(rounds, results.clients[store, 1])
                for (store, clients), rounds in results.clients.items()
            ],
        ),
        "",
        "Each client is a key of the limit, and requests name the clients in turn. The ratios are to one client on the same store.",
        "",
        f"## More gateways on one Redis, at {results.steady:.0%} of the top rate of one",
        "",
        *table(
            ["gateways", "clients", *HEAD, *COSTS],
            [row(str(many), "100", rounds) + costs(rounds, results.gateways[1]) for many, rounds in results.gateways.items()],
        ),
        "",
        "All gateways share one core, so this table shows their cost and not the rate of a larger fleet. The ratios are to one gateway.",
        "",
        "## Verdict: " + ("passed" if verdict.passed else "failed"),
        "",
        *(f"- {'' if is_so else '**not so:** '}{sentence}" for is_so, sentence in verdict.findings),
        "",
        "## Versions and machine",
        "",
        *(f"- {name}: {value}" for name, value in {**results.versions, **results.machine}.items()),
        f"- load of the machine before: {results.load_before:.1f}",
        "",
    ]
    return "\n".join(lines)


HEAD = ["offered/s", "carried/s", "p50 ms", "p95 ms", "p99 ms", "client busy"]
COSTS = ["gateway CPU us", "ratio", "Redis CPU us", "ratio"]


def row(name, key, rounds):
    of = median(rounds)
    times = [f"{of[f'{part}_ms']:,.2f}" for part in ("p50", "p95", "p99")]
    return [name, key, f"{of['offered']:,.0f}", f"{of['carried']:,.0f}", *times, f"{of['client_busy']:.0%}"]


def costs(rounds, base):
    of = median(rounds)
    found = []
    for key in ("cpu_us", "redis_cpu_us"):
        times = ratio(rounds, base, key)
        found += [f"{of[key]:.1f}", f"{times:.2f}"] if times else ["–", "–"]
    return found


def where(share):
    return f"at {share:.0%} of the top rate" if share else "at no offered load"
