"""The records of a run: the riders' requests, the API's arrivals, and the gateways' log and counters."""

import json
import re
from collections import namedtuple
from datetime import datetime

# A request as its rider saw it; status 0: no answer in time. Times in microseconds since the epoch.
Request = namedtuple("Request", "sent done client address method path status retry_after")
# A request as it reached the API; `taken` is 0 if the API had no room for it.
Arrival = namedtuple("Arrival", "at sent client path taken")
# A request in the gateway's access log. Times in microseconds; `upstream` is None if it was not forwarded.
Logged = namedtuple("Logged", "at status outcome limit total upstream client route", defaults=[None])


def requests(path):
    with open(path, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    made = [Request(int(r[0]), int(r[1]), r[2], r[3], r[4], r[5], int(r[6]), int(r[7])) for r in rows]
    return sorted(made)


def arrivals(path):
    """Returns the requests of riders and the prober, which contain the time of their sending."""
    with open(path, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return [Arrival(int(r[0]), int(r[1]), r[2], r[3], int(r[4])) for r in rows if r[1] != "-"]


def access_log(paths):
    """Returns all lines about requests, in the order of their beginning."""
    found = []
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if '"target":"access"' in line:
                    found.append(logged(json.loads(line)))
    return sorted(found, key=lambda line: line.at)


def logged(line):
    ended = datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()
    return Logged(
        int(ended * 1e6) - line["total_us"],
        line["status"],
        line["outcome"],
        line.get("limit"),
        line["total_us"],
        line.get("upstream_us"),
        line.get("client"),
        line.get("route"),
    )


def counters(text, name):
    """Returns the values of one metric on a /metrics page, by their labels."""
    values = {}
    for labels, value in re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE):
        values[tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels)))] = float(value)
    return values


def share(values, part):
    """Returns the value that this part of the values does not exceed: 0.99 for p99. None if there are no values."""
    values = sorted(values)
    if not values:
        return None
    return values[max(0, -int(-len(values) * part // 1) - 1)]
