"""One greedy client among a hundred polite ones: its bucket limits it, and it does not affect the others."""

from collections import defaultdict

from kit.verdict import judge_answers, judge_limits, judge_record
from scenarios import keyed

SECONDS = 30
POLITE = 100
API = {"workers": 32, "service_time": 0.01, "queue": 2000}
PATIENCE = 10


def prepare(api, processes, options):
    riders, entries = keyed(["greedy", *(f"polite-{number}" for number in range(POLITE))], processes)
    riders[0]["greedy"] = True
    config = {
        "clients": [{"api_key": {"keys": entries, "unknown": "reject"}}, {"ip": {}}],
        "limits": {"ride-burst": {"token_bucket": {"capacity": 20, "refill": "10/s"}}},
        "routes": [
            {"name": "ride-request", "path": "/api/rides/request", "upstream": api, "limits": ["ride-burst"]},
        ],
    }
    return config, riders


def judge(verdict, rules, run):
    requests, arrivals = run.requests, run.arrivals
    judge_answers(verdict, rules, requests)
    judge_limits(verdict, rules, requests, arrivals, run.outage, run.least)
    judge_record(verdict, requests, arrivals)

    by_client = defaultdict(list)
    for request in requests:
        by_client[request.client].append(request)
    greedy = by_client.pop("api_key:greedy")
    admitted = [arrival for arrival in arrivals if arrival.client == "api_key:greedy"]
    limit = rules.limits["ride-burst"]
    allowed = limit.at_most(max(arrival.at for arrival in admitted) - greedy[0].sent)
    allowed += limit.quota if run.outage else 0
    verdict.say(
        run.least * allowed <= len(admitted) <= allowed,
        f"the greedy one sent {len(greedy):,} and got {len(admitted):,} through; its bucket allows {allowed:,}",
    )
    burst = sum(request.status == 200 for request in greedy[: limit.quota])
    verdict.say(burst == limit.quota, f"of its first {limit.quota} requests {burst} got through")
    refused = sum(request.status == 429 for polite in by_client.values() for request in polite)
    verdict.say(
        refused == 0 and len(by_client) == POLITE,
        f"{len(by_client)} polite ones sent {sum(map(len, by_client.values())):,}, of which {refused:,} were refused",
    )
