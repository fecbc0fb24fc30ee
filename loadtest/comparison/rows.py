"""The rows of the comparison: a row is one gateway with one limit. Rows of a group are compared with each other."""

from dataclasses import dataclass, field, replace
from fnmatch import fnmatch

from comparison.gateways import ADMITS, OTHERS, REFUSES, Limit
from comparison.load import OTHER, SMALL, Traffic

ALONE = "upstream"

GROUPS = {
    "default admitted": "As it comes: admitted, with an access log in a file",
    "default refused": "As it comes: refused, with an access log in a file",
    "admitted": "Admitted, counted in the gateway",
    "refused": "Refused, counted in the gateway",
    "redis admitted": "Admitted, counted in Redis",
    "redis refused": "Refused, counted in Redis",
    "tls 1": "HTTP/1 over TLS: admitted, counted in the gateway",
    "tls 2": "HTTP/2 over TLS: admitted, counted in the gateway",
    "megabyte": "Answers of 1 MB: admitted, counted in the gateway",
    "megabyte tls": "Answers of 1 MB over TLS: admitted, counted in the gateway",
    "handshakes": "TLS handshakes: a new connection and a full handshake for each request, admitted, counted in the gateway",
    "price": "What tidegate's parts cost: admitted, counted in the gateway",
}

LOGGING = {"logs": True}
TRUSTING = {"trusted": ("127.0.0.1",)}
MANY_LEASED = {**TRUSTING, "mode": "leased"}


@dataclass(frozen=True)
class Row:
    name: str
    group: str
    label: str
    gateway: str = "tidegate"
    limit: Limit = ADMITS
    redis: bool = False
    options: dict = field(default_factory=dict)
    threads: int = 1
    api_key: bool = False
    traffic: Traffic = SMALL
    clients: int = 1  # by turns; more than one are named by a proxy that is believed
    other_build: bool = False  # of tidegate: that of --against


def rows(programs):
    """Returns all rows that are possible with these programs, in the order of a round, and the labels of all others.

    Rows that are compared are neighbours, so that the machine is in one state for them.
    """
    listed = [
        *(logging(name, limit) for name in ("haproxy", "nginx") for limit in (ADMITS, REFUSES)),
        Row("default admitted", "default admitted", "tidegate", options=LOGGING),
        Row("default refused", "default refused", "tidegate", limit=REFUSES, options=LOGGING),
        *(logging(name, limit) for name in ("envoy", "traefik") for limit in (ADMITS, REFUSES)),
        other("haproxy", ADMITS),
        other("nginx", ADMITS),
        other("hyper", ADMITS),
        Row("memory admitted", "admitted", "tidegate"),
        other("hyper-redis", ADMITS),
        Row("exact admitted", "redis admitted", "tidegate, `exact`", redis=True),
        Row("three limits", "redis admitted", "tidegate, `exact`, three limits", redis=True, options={"limits": 3}),
        Row("leased admitted", "redis admitted", "tidegate, `leased`", redis=True, options={"mode": "leased"}),
        Row("exact many", "redis admitted", "tidegate, `exact`, 1,000 clients", redis=True, options=TRUSTING, clients=1_000),
        Row("leased many", "redis admitted", "tidegate, `leased`, 1,000 clients", redis=True, options=MANY_LEASED, clients=1_000),
        Row("two threads", "price", "with a limit, on two threads", threads=2),
        Row("limits off", "price", "without limits", options={"limits": 0}),
        Row("headers off", "price", "with a limit, `headers: none`", options={"headers": "none"}),
        Row("log on", "price", "with a limit and the access log", options={"access": True}),
        Row("traced none", "price", "with a limit and tracing, nothing sampled", options={"traces": "0%"}),
        Row("traced some", "price", "with a limit and 1 % of requests traced", options={"traces": "1%"}),
        Row("api key", "price", "with a limit per verified API key", api_key=True),
        other("nginx-redis", ADMITS),
        other("nginx-redis", REFUSES),
        Row("exact refused", "redis refused", "tidegate, `exact`", limit=REFUSES, redis=True),
        Row("memory refused", "refused", "tidegate", limit=REFUSES),
        Row("log on refused", "refused", "tidegate with the access log", limit=REFUSES, options={"access": True}),
        other("hyper", REFUSES),
        other("nginx", REFUSES),
        other("haproxy", REFUSES),
        *(other(name, limit) for name in ("envoy", "traefik", "traefik-redis") for limit in (ADMITS, REFUSES)),
        *(carrying(name, group) for group in OTHER for name in ("haproxy", "nginx", "tidegate", "envoy", "traefik")),
        carrying("hyper", "megabyte"),
    ]
    there = [row for row in listed if possible(row, programs)]
    return there, [f"{GROUPS[row.group]}: {row.label}" for row in listed if row not in there]


def fitting(rows, patterns):
    """Returns the rows whose names match any of these patterns. Rows of another build are added later."""
    return [row for row in rows if any(fnmatch(row.name, pattern) for pattern in patterns)]


def with_other_build(rows):
    """Adds the same row of another build after each row of tidegate."""
    for row in rows:
        yield row
        if row.gateway not in OTHERS:
            yield replace(row, name=f"{row.name} against", label=f"{row.label}, other build", other_build=True)


def other(name, limit):
    gateway = OTHERS[name]
    verb = "refused" if limit is REFUSES else "admitted"
    group = f"redis {verb}" if gateway.redis else verb
    return Row(f"{name} {verb}", group, gateway.label, name, limit, gateway.redis)


def logging(name, limit):
    """Returns a row in which the gateway logs requests into a file, with its default settings."""
    verb = "refused" if limit is REFUSES else "admitted"
    return Row(f"{name} logged {verb}", f"default {verb}", OTHERS[name].label, name, limit, options=LOGGING)


def carrying(name, group):
    """Returns a row of a group with its own traffic."""
    label, of = (OTHERS[name].label, name) if name in OTHERS else (name, "memory")
    return Row(f"{of} {group}", group, label, name, traffic=OTHER[group])


def possible(row, programs):
    needs = (OTHERS[row.gateway].needs if row.gateway in OTHERS else ()) + row.traffic.needs
    return all(name in programs for name in needs) and (not row.redis or "redis-server" in programs)
