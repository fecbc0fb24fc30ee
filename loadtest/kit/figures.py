"""The figures of one ride: counts, times, and the share of each rider."""

from kit import records

# The requests of a rider who asks often.
OFTEN = 5
# Above the number of riders of any run.
MOST_RIDERS = 100_000
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def first(run):
    return run.requests[0].sent


def of(run, seconds):
    """Returns all figures of a run that took `seconds`."""
    through = let_through(run)
    refused = [line for line in run.log if line.status == 429]
    probed = {status: [r.done - r.sent for r in run.probed if r.status == status] for status in (200, 429)}
    given_up = [request.done - request.sent for request in run.probed if request.status == 0]
    return {
        "load_before": round(run.load, 2),
        "requests": len(run.log),
        "answered": sum(line.status == 200 for line in through),
        "let_through": len(through),
        "failed": {
            "given up by the client": sum(line.status == 499 for line in through),
            "503 by the API": sum(turned_away(line) for line in through),
            "other": sum(line.status not in (200, 499) and not turned_away(line) for line in through),
        },
        "refused": len(refused),
        "refused_by": refused_by(run),
        "clients_served": len({request.client for request in run.requests if request.status == 200}),
        "by_path": by_path(run),
        "reached_the_api": len(run.arrivals),
        "waited_ms": shares([line.total for line in waited(run)]),
        "refused_ms": shares([line.total for line in refused]),
        "probe_waited_ms": shares(probed[200] + given_up),
        "probe_refused_ms": shares(probed[429]),
        "access_log_lines_lost": int(run.dropped),
        "per_second": per_second(run, seconds),
    }


def shares(microseconds):
    if not microseconds:
        return None
    return {name: round(records.share(microseconds, share) / 1000, 2) for name, share in SHARES.items()}


def per_second(run, seconds):
    """Returns for each second the requests that began in it, and the time of the slowest hundredth, in milliseconds."""
    rows = [{"second": second} for second in range(seconds)]
    buckets = [{"answered": [], "failed": [], "refused": [], "waited": []} for _ in rows]
    for line in run.log:
        second = (line.at - first(run)) // 1_000_000
        if 0 <= second < len(rows):
            kind = {200: "answered", 429: "refused"}.get(line.status, "failed")
            buckets[second][kind].append(line.total)
            if line.status != 429 and not turned_away(line):
                buckets[second]["waited"].append(line.total)
    for row, bucket in zip(rows, buckets):
        row.update({kind: len(bucket[kind]) for kind in ("answered", "failed", "refused")})
        for kind in ("waited", "refused"):
            slowest = records.share(bucket[kind], 0.99)
            row[f"{kind}_p99_ms"] = slowest and slowest / 1000
    return rows


def let_through(run):
    """Returns the requests that the gateways let through, by their log; 401 and the like do not happen here."""
    return [line for line in run.log if line.status != 429]


def waited(run):
    """Returns the requests that a worker of the API answered, or should have answered."""
    return [line for line in let_through(run) if not turned_away(line)]


def turned_away(line):
    """Whether the API had no room for it; a 503 of the gateway's own is not forwarded."""
    return line.status == 503 and line.upstream is not None


def by_path(run):
    """Returns for each path of the API the requests that were sent, answered and refused, as the clients counted."""
    rows = {}
    for request in run.requests:
        row = rows.setdefault(request.path, {"sent": 0, "answered": 0, "refused": 0})
        row["sent"] += 1
        row["answered"] += request.status == 200
        row["refused"] += request.status == 429
    return dict(sorted(rows.items()))


def admitted_riders(run, greedy):
    """Returns who got answers: the number of clients, their part of those who asked often, the greedy riders' part, and the most of one.

    A busy Locust lets some riders ask only once, so the number of clients depends on Locust, too.
    """
    asked, got = {}, {}
    for request in run.requests:
        asked[request.client] = asked.get(request.client, 0) + 1
        if request.status == 200:
            got[request.client] = got.get(request.client, 0) + 1
    names = {f"user_id:rider-{number}" for number in range(0, MOST_RIDERS, greedy)}
    answers = sum(got.values())
    of_greedy = sum(many for client, many in got.items() if client in names)
    often = [client for client, many in asked.items() if many >= OFTEN]
    return {
        "served": len(got),
        "often": sum(client in got for client in often) / max(1, len(often)),
        "answers": answers,
        "greedy": of_greedy / max(1, answers),
        "most": max(got.values(), default=0),
    }


def refused_by(run):
    by_limit = {}
    for line in run.log:
        if line.status == 429:
            by_limit[line.limit] = by_limit.get(line.limit, 0) + 1
    return by_limit


def per_client(run, rules):
    """Returns for each client its name, its requests, its admitted requests, and the number that its bucket allows."""
    limit = rules.limits["ride-burst"]
    sent, got, begun, last = {}, {}, {}, {}
    for request in run.requests:
        sent[request.client] = sent.get(request.client, 0) + 1
        begun[request.client] = min(begun.get(request.client, request.sent), request.sent)
    for arrival in run.arrivals:
        got[arrival.client] = got.get(arrival.client, 0) + 1
        last[arrival.client] = max(last.get(arrival.client, 0), arrival.at)
        begun[arrival.client] = min(begun.get(arrival.client, arrival.sent), arrival.sent)
    once_more = limit.quota if run.outage else 0
    rows = []
    for client, many in got.items():
        allowed = limit.at_most(last[client] - begun[client]) + once_more
        rows.append((client, sent.get(client, 0), many, allowed))
    return sorted(rows, key=lambda row: -row[2])
