"""The report of a surge: a page for people, with two charts, and the same figures as JSON."""

import json

from kit import charts, figures, single
from kit.verdict import Rules

RED, ORANGE, BLUE, GREEN = "#c0392b", "#d68910", "#1f5fa8", "#1e8449"


def write(results, verdict, folder, day):
    """Writes it, and returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    of = {name: figures.of(run, results.seconds) for name, run in (("off", results.off), ("on", results.on))}
    names = {kind: f"{day}-surge-{kind}.svg" for kind in ("latency", "requests")}
    (folder / names["latency"]).write_text(latency_chart(results, of), encoding="utf-8")
    (folder / names["requests"]).write_text(requests_chart(results, of), encoding="utf-8")
    whole = {
        "date": day,
        "passed": verdict.passed,
        "verdict": [{"is_so": bool(is_so), "sentence": sentence} for is_so, sentence in verdict.findings],
        "machine": results.machine,
        "riders": results.riders,
        "seconds": results.seconds,
        "offered_per_second": round(results.offered),
        "capacity_per_second": round(results.capacity, 1),
        "api": results.api,
        "limits": results.on.config["limits"],
        "gateways": single.shown(results.options),
        **of,
        **({"share": figures.of(results.share, results.seconds)} if results.options.share else {}),
    }
    (folder / f"{day}-surge.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    page = folder / f"{day}-surge.md"
    page.write_text(page_of(results, verdict, of, names, day), encoding="utf-8")
    return page


def marks(results):
    return [(results.extra["calm"], "the surge begins")]


def latency_chart(results, of):
    def points(ride, key):
        return [(row["second"], row[key]) for row in of[ride]["per_second"] if row[key]]

    lines = [
        ("waiting, limits off", RED, points("off", "waited_p99_ms")),
        ("waiting, limits on", BLUE, points("on", "waited_p99_ms")),
        ("refused, limits on", GREEN, points("on", "refused_p99_ms")),
    ]
    title = "p99 of the duration, by the second in which a request was sent"
    return charts.chart(title, "ms", lines, marks(results))


def requests_chart(results, of):
    def points(ride, key):
        return [(row["second"], row[key]) for row in of[ride]["per_second"]]

    lines = [
        ("refused at once, limits on", GREEN, points("on", "refused")),
        ("answered, limits on", BLUE, points("on", "answered")),
        ("answered, limits off", RED, points("off", "answered")),
        ("failed, limits off", ORANGE, points("off", "failed")),
    ]
    levels = [(results.capacity, "what the API can do")]
    return charts.chart("Requests per second and their outcome, by the second in which they were sent", "/s", lines, marks(results), levels)


def page_of(results, verdict, of, names, day):
    off, on, api = of["off"], of["on"], results.api
    rules = Rules(results.on.config)
    limits = rules.limits
    shared, own = limits["matching"], limits["ride-burst"]
    rows = [
        ("requests", number(off["requests"]), number(on["requests"])),
        ("refused with 429", number(off["refused"]), number(on["refused"])),
        ("reached the API", number(off["reached_the_api"]), number(on["reached_the_api"])),
        ("answered with 200", number(off["answered"]), number(on["answered"])),
        ("clients with at least one 200, the probes included", number(off["clients_served"]), number(on["clients_served"])),
        *((f"failed: {why}", number(off["failed"][why]), number(on["failed"][why])) for why in off["failed"]),
        ("failed, of what was let through", failing(off), failing(on)),
        ("waited for the API: p50, p95, p99", times(off["waited_ms"]), times(on["waited_ms"])),
        ("the same, as a probe saw it", times(off["probe_waited_ms"]), times(on["probe_waited_ms"])),
        ("refused: p50, p95, p99, by the gateway's clock", times(off["refused_ms"]), times(on["refused_ms"])),
        ("refused, as a probe saw it", times(off["probe_refused_ms"]), times(on["probe_refused_ms"])),
        ("load of the machine before", f"{off['load_before']:.1f}", f"{on['load_before']:.1f}"),
    ]
    most = figures.per_client(results.on, rules)[:5]
    lines = [
        f"# A surge, {day}",
        "",
        f"{results.riders:,} riders, one in {results.greedy} of them greedy, for {results.seconds} s; "
        f"{single.shown(results.options)}. The API works on {api['workers']} requests at a time, "
        f"{api['service_time'] * 1000:.1f} ms each: **{results.capacity:,.0f} a second**. {api['queue']:,} may wait. On this "
        f"machine the riders send **{results.offered:,.0f} a second** when nobody has to wait; a rider who waits for an answer "
        f"sends nothing meanwhile, and gives up after {results.patience} s.",
        "",
        f"Limits: `ride-burst`, {own.quota} and {own.rate[0]}/s per rider, and `matching`, {shared.quota} and "
        f"{shared.rate[0]}/s for all together.",
        "",
        f"![Latency over time]({names['latency']})",
        "",
        f"![Requests over time]({names['requests']})",
        "",
        "| | limits off | limits on |",
        "|---|--:|--:|",
        *(f"| {what} | {before} | {after} |" for what, before, after in rows),
        "",
        "Times are the gateway's own, from its access log. A client who gives up counts with the time until then, and a 503 "
        f"by the API is no waiting. A probe asks {results.probes} times a second, whatever the answers, and counts from when "
        "it was due.",
        "",
        "Refused by: " + ", ".join(f"`{name}` {number(many)}" for name, many in sorted(on["refused_by"].items())) + ".",
        "",
        "Who got most through, and what the rider's bucket allows from the first request to the last arrival:",
        "",
        "| rider | sent | reached the API | allowed |",
        "|---|--:|--:|--:|",
        *(f"| {client} | {number(sent)} | {number(got)} | {number(allowed)} |" for client, sent, got, allowed in most),
        "",
        *with_share(results),
        "By endpoint, as the clients counted:",
        "",
        "| endpoint | sent, limits off | answered | sent, limits on | answered | refused |",
        "|---|--:|--:|--:|--:|--:|",
        *(endpoint(path, off["by_path"], on["by_path"]) for path in on["by_path"]),
        "",
        "## How to read it",
        "",
        *READING,
        "",
        "## Verdict: " + ("passed" if verdict.passed else "failed"),
        "",
        *(f"- {'' if is_so else '**not so:** '}{sentence}" for is_so, sentence in verdict.findings),
        "",
        "## The machine",
        "",
        *(f"- {what}: {value}" for what, value in results.machine.items()),
        "",
    ]
    return "\n".join(lines)


def with_share(results):
    """Returns the lines about the run whose shared limit has `share`, if there is one."""
    if not results.options.share:
        return []
    on, share = (figures.admitted_riders(run, results.greedy) for run in (results.on, results.share))
    rows = [
        ("clients with at least one 200, the probes included", number(on["served"]), number(share["served"])),
        (f"of the clients with {figures.OFTEN} requests or more, with a 200", f"{on['often']:.1%}", f"{share['often']:.1%}"),
        ("answered with 200", number(on["answers"]), number(share["answers"])),
        ("of these, to the greedy riders", f"{on['greedy']:.1%}", f"{share['greedy']:.1%}"),
        ("the most that one client got", number(on["most"]), number(share["most"])),
    ]
    lines = ["A third run has `share: { by: [client] }` on `matching`, and the same riders:", "", "| | limits on | and `share` |", "|---|--:|--:|"]
    return [*lines, *(f"| {what} | {before} | {after} |" for what, before, after in rows), ""]


READING = (
    "- **How large the surge is.** The verdict has the measured factor. It is smaller than the rate at which the riders could send, because "
    "a rider who waits for an answer sends nothing.",
    "- **More answers than the API can do.** The charts count a request in the second in which it was sent. Without limits its answer may "
    "come up to 10 s later, so a second in which much was sent can have more answers than the API gives in one second.",
    "- **Refusals before the surge.** One rider in 20 is greedy and never waits. In the calm time their own bucket refuses them. The "
    "refusals fall when the surge begins, probably because thousands of riders then share the processor with the greedy ones.",
    "- **Two times of a refusal.** The gateway's clock runs from the end of the request's head to its answer. A probe's clock also has the "
    "connection and the wait for a processor, which Locust keeps busy. A client sees the probe's time.",
    "- **Beside other published runs.** `--riders 2000 --seconds 60` lets 2,000 riders join at 100 a second. The tables have the clients "
    "that were served, and the counts of each endpoint.",
)


def endpoint(path, off, on):
    before, after = off.get(path, {"sent": 0, "answered": 0}), on[path]
    cells = [before["sent"], before["answered"], after["sent"], after["answered"], after["refused"]]
    return f"| `{path}` | " + " | ".join(number(cell) for cell in cells) + " |"


def number(value):
    return f"{value:,}"


def times(values):
    return " · ".join(f"{value:,.1f}" if value >= 1 else f"{value:.2f}" for value in values.values()) + " ms" if values else "–"


def failing(ride):
    return f"{sum(ride['failed'].values()) / max(1, ride['let_through']):.2%}"
