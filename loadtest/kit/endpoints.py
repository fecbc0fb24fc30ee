"""The figures of each endpoint in two runs, and their report: a page, a table as CSV, and JSON."""

import csv
import json
from statistics import mean

from kit import records, single

COLUMNS = ["limits", "clock", "endpoint", "answers", "requests", "average_ms", "median_ms", "min_ms", "max_ms", "p95_ms", "p99_ms", "failures"]
CLOCKS = {"riders": "As the riders saw it", "gateway": "By the gateway's clock"}
ALL = "all"
# The published figures of the chapter: without limits, and with them.
PUBLISHED = {
    "requests": ("28,410", "28,410"),
    "requests a second": ("157.8", "157.8"),
    "let through": ("28,410", "9,323"),
    "p99 of requests that were let through": ("39,000 ms", "680 ms"),
    "failed, of what was let through": ("19.3 %", "0.1 %"),
    "refused: mean": ("–", "3 ms"),
    "refused: p99": ("–", "8 to 10 ms"),
}


def of(run, results):
    """Returns the figures of one run; without the separate client, except for its own times."""
    through = [request for request in run.ridden if request.status != 429]
    probed = [request.done - request.sent for request in run.probed if request.status == 429]
    logged = [line for line in run.log if line.status != 429 and line.client != "user_id:prober"]
    span = (max(request.sent for request in run.ridden) - run.ridden[0].sent) / 1e6
    return {
        "seconds": max((arrival.at for arrival in run.arrivals), default=0) / 1e6 - run.ridden[0].sent / 1e6,
        "sent": len(run.ridden),
        "per_second": len(run.ridden) / span,
        "let_through": len(through),
        "riders_served": len({request.address for request in run.ridden if request.status == 200}),
        "failed": sum(request.status != 200 for request in through) / max(1, len(through)),
        "through_ms": times([line.total for line in logged]),
        "through_rider_ms": times([request.done - request.sent for request in through]),
        "probe_refused_ms": times(probed),
        "probe_refused": len(probed),
        "riders_found": riders_found(run.ridden, results),
        "reached_the_api": len(run.arrivals),
        "load_before": round(run.load, 2),
    }


def riders_found(ridden, results, spawn_rate=100, wait=0.3):
    """Returns the number of riders that the rate and the times account for, by Little's law, while all riders are there."""
    begin = ridden[0].sent + (results.riders / spawn_rate + 1) * 1e6
    end = ridden[0].sent + results.seconds * 1e6
    there = [request.done - request.sent for request in ridden if begin <= request.sent < end]
    return len(there) / ((end - begin) / 1e6) * (mean(there) / 1e6 + wait) if there else 0


def times(microseconds):
    if not microseconds:
        return None
    shares = {"median": 0.5, "p95": 0.95, "p99": 0.99}
    found = {name: records.share(microseconds, share) for name, share in shares.items()}
    found |= {"average": mean(microseconds), "min": min(microseconds), "max": max(microseconds)}
    return {name: round(value / 1000, 3) for name, value in found.items()}


def rows(name, run, paths):
    """Returns the rows of one run, under COLUMNS. Refusals have rows of their own, and are no failures."""
    seen = {
        "riders": [(request.path, request.status, request.done - request.sent) for request in run.ridden],
        "gateway": [(paths.get(line.route), line.status, line.total) for line in run.log if line.client != "user_id:prober"],
    }
    found = []
    for clock, requests in seen.items():
        for path in [*paths.values(), ALL]:
            mine = [(status, took) for where, status, took in requests if path in (where, ALL)]
            for answers in ("let through", "429"):
                taken = [(status, took) for status, took in mine if (status == 429) == (answers == "429")]
                if taken:
                    of = times([took for _, took in taken])
                    failures = sum(status not in (200, 429) for status, _ in taken)
                    shown = [of[key] for key in ("average", "median", "min", "max", "p95", "p99")]
                    found.append([name, clock, path, answers, len(taken), *shown, failures])
    return found


def write(results, verdict, folder, day, table=None):
    """Writes the report, and the table to the file of `--csv`. Returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {route["name"]: route["path"] for route in results.on.config["routes"]}
    results.rows = rows("off", results.off, paths) + rows("on", results.on, paths)
    if table:
        with open(table, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *results.rows])
    whole = {
        "date": day,
        "command": results.command,
        "passed": verdict.passed,
        "verdict": [{"is_so": bool(is_so), "sentence": sentence} for is_so, sentence in verdict.findings],
        "machine": results.machine,
        "riders": results.riders,
        "keys": results.keys,
        "seconds": results.seconds,
        "api": results.api,
        "columns": COLUMNS,
        "rows": results.rows,
        **results.figures,
    }
    (folder / f"{day}-chapter.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    page = folder / f"{day}-chapter.md"
    page.write_text(page_of(results, verdict, day), encoding="utf-8")
    return page


def page_of(results, verdict, day):
    off, on, api = results.figures["off"], results.figures["on"], results.api
    system = results.experiment.cores
    placed = "one processor for all processes"
    if system:
        placed = f"Locust had core {min(system['load'])}; gateway, API and the separate client had {shown_cores(system['system'])}"
    lines = [
        f"# The experiment of a ride-hailing chapter, {day}",
        "",
        f"Command: `{results.command}`, with {single.shown(results.options)}. {placed[0].upper()}{placed[1:]}.",
        "",
        f"{results.riders:,} riders join at 100 a second, ride for {results.seconds} s in each run, and wait 0.1 to 0.5 s after each answer. Three "
        f"of four requests are rides, and one is a fare; all are POST with JSON. The API serves **{results.capacity:,} requests a second** "
        f"({api['workers']} at a time, {api['service_time'] * 1000:.1f} ms each), and {api['queue']:,} may wait. Each endpoint has a token bucket of "
        f"20 and 10/s per user ID. The riders share {results.keys} user ID{'s' if results.keys > 1 else ''}. A bucket for each rider would refuse "
        "no request, because a rider sends at most 10 requests a second. A request that finds the queue full gets 503, and is a failure.",
        "",
        "## Beside the published figures",
        "",
        "| | published, without | measured, without | published, with | measured, with |",
        "|---|--:|--:|--:|--:|",
        *(f"| {what} | {' | '.join(cells)} |" for what, cells in beside(off, on)),
        "",
        "The published figures contradict each other. A rider who waits 0.3 s and gets an answer in 3 ms sends 3.3 requests a second, so 2,000 "
        "riders send 6,600 a second and not 157.8. One bucket of 20 and 10/s admits 1,820 requests in three minutes, and two buckets admit 3,640. "
        f"The published runs let 9,323 through. Without a failing API, {results.riders:,} riders in a closed loop wait at most "
        f"{results.riders / results.capacity:.1f} s for an API of {results.capacity:,} a second.",
        "",
    ]
    for clock, title in CLOCKS.items():
        lines += [f"## {title}", ""]
        lines += ["| limits | endpoint | answers | requests | average | median | min | max | p95 | p99 | failures |", "|---|---|---|" + "--:|" * 8]
        lines += [
            f"| {row[0]} | {row[2]} | {row[3]} | {row[4]:,} | " + " | ".join(f"{value:,.2f}" for value in row[5:11]) + f" | {row[11]:,} |"
            for row in results.rows
            if row[1] == clock
        ]
        lines += ["", "Times in milliseconds.", ""]
    lines += [
        f"Riders that were served at least once: {off['riders_served']:,} without limits, and {on['riders_served']:,} with them.",
        "",
        f"The separate client sends {results.probes} requests a second on new connections, and does not wait for answers. Its time counts from "
        f"the due time of a request, and includes the connection. It got {on['probe_refused']:,} refusals. Locust is one busy process, so the "
        "riders' times include the wait inside Locust.",
        "",
        "## Verdict: " + ("passed" if verdict.passed else "failed"),
        "",
        *(f"- {'' if is_so else '**not so:** '}{sentence}" for is_so, sentence in verdict.findings),
        "",
        "## The machine",
        "",
        *(f"- {what}: {value}" for what, value in results.machine.items()),
        f"- load of the machine before: {off['load_before']:.1f} and {on['load_before']:.1f}",
        "",
    ]
    return "\n".join(lines)


def shown_cores(cores):
    return f"core {min(cores)}" if len(cores) == 1 else f"cores {min(cores)} to {max(cores)}"


def beside(off, on):
    refused = on["probe_refused_ms"] or {"average": 0, "p99": 0}
    measured = {
        "requests": (f"{off['sent']:,}", f"{on['sent']:,}"),
        "requests a second": (f"{off['per_second']:,.1f}", f"{on['per_second']:,.1f}"),
        "let through": (f"{off['let_through']:,}", f"{on['let_through']:,}"),
        "p99 of requests that were let through": (f"{off['through_ms']['p99']:,.0f} ms", f"{on['through_ms']['p99']:,.1f} ms"),
        "failed, of what was let through": (f"{off['failed']:.1%}".replace("%", " %"), f"{on['failed']:.1%}".replace("%", " %")),
        "refused: mean": ("–", f"{refused['average']:.1f} ms"),
        "refused: p99": ("–", f"{refused['p99']:.1f} ms"),
    }
    return [(what, (PUBLISHED[what][0], before, PUBLISHED[what][1], after)) for what, (before, after) in measured.items()]
