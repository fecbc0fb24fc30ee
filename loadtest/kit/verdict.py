"""What a run proved: sentences, each true or not. One that is not makes the run fail."""

from collections import defaultdict

from kit import proof
from kit.limits import Limit


class Verdict:
    def __init__(self):
        self.findings = []

    def say(self, is_so, sentence):
        self.findings.append((bool(is_so), sentence))
        return is_so

    @property
    def passed(self):
        return bool(self.findings) and all(is_so for is_so, _ in self.findings)

    def text(self):
        return "\n".join(f"{'  ok ' if is_so else 'FAIL '} {sentence}" for is_so, sentence in self.findings)


class Rules:
    """Which limits a request is charged to, from a gateway's configuration."""

    def __init__(self, config):
        self.limits = {name: Limit.of(name, written) for name, written in config["limits"].items()}
        always = config.get("always", [])
        self.routes = {route["path"]: always + route.get("limits", []) for route in config["routes"]}

    def charges(self, path, client, address):
        """The limits of a request, with the key of each."""
        names = self.routes.get(path, [])
        return [(self.limits[name], self.limits[name].key(client, address)) for name in names]


def replayed(rules, requests):
    """Which requests the models admit, in the order in which they were sent: a list of true and false."""
    models = {}
    admitted = []
    for request in requests:
        charges = rules.charges(request.path, request.client, request.address)
        found = []
        for limit, key in charges:
            if (limit.name, key) not in models:
                models[limit.name, key] = limit.model()
            found.append(models[limit.name, key])
        # All or nothing, and each is asked: a model learns the time from being asked.
        fits = all([model.admits(request.sent) for model in found])
        if fits:
            for model in found:
                model.charge(request.sent)
        admitted.append(fits)
    return admitted


def judge_limits(verdict, rules, requests, arrivals, outage=None, least=0.9):
    """No key got more than its limit, and all of them together at least `least` of what the models admit."""
    addresses = {request.client: request.address for request in requests}
    spans = defaultdict(list)
    for arrival in arrivals:
        for limit, key in rules.charges(arrival.path, arrival.client, addresses.get(arrival.client)):
            spans[limit, key].append((arrival.sent, arrival.at))
    beyond = defaultdict(int)
    for (limit, key), times in spans.items():
        beyond[limit.name] += proof.too_many(limit, times, outage)

    # By what a request was charged to first, so that each is counted once.
    expected, got = defaultdict(int), defaultdict(int)
    for request, fits in zip(requests, replayed(rules, requests)):
        expected[request.path] += fits
    for arrival in arrivals:
        got[arrival.path] += 1

    for name, limit in rules.limits.items():
        keys = [key for (of, key) in spans if of is limit]
        admitted = sum(len(times) for (of, _), times in spans.items() if of is limit)
        if keys:
            under = "one key" if len(keys) == 1 else f"{len(keys):,} keys"
            verdict.say(
                beyond[name] == 0,
                f"{name}: {admitted:,} requests reached the API, under {under}, and {beyond[name]:,} of them beyond what "
                f"{name} allows",
            )
    for path, many in sorted(expected.items()):
        verdict.say(
            got[path] >= least * many - 3,
            f"{path}: {got[path]:,} reached the API, where the models admit {many:,}; "
            f"at least {least:.0%} of that is asked for",
        )


def judge_answers(verdict, rules, requests, may_fail=0):
    """Every answer is the API's or an honest 429."""
    statuses = defaultdict(int)
    for request in requests:
        statuses[request.status] += 1
    others = {status: many for status, many in statuses.items() if status not in (200, 429)}
    verdict.say(
        sum(others.values()) <= may_fail,
        f"{len(requests):,} requests: {statuses[200]:,} answered with 200, {statuses[429]:,} with 429, "
        f"{sum(others.values()):,} otherwise {dict(sorted(others.items())) or ''}".rstrip(),
    )
    wrong = 0
    for request in requests:
        if request.status == 429:
            charges = rules.charges(request.path, request.client, request.address)
            longest = max([limit.longest_wait() for limit, _ in charges], default=0)
            wrong += not 1 <= request.retry_after <= longest
    verdict.say(wrong == 0, f"Retry-After: {wrong:,} of {statuses[429]:,} refusals without one that fits their limits")


def judge_record(verdict, requests, arrivals):
    """The riders' record and the API's agree: no 429 reached the API, and every 200 did."""
    arrived = {(arrival.client, arrival.sent) for arrival in arrivals}
    refused = sum((request.client, request.sent) in arrived for request in requests if request.status == 429)
    lost = sum((request.client, request.sent) not in arrived for request in requests if request.status == 200)
    verdict.say(
        refused == 0 and lost == 0,
        f"the API's own record: {refused:,} refused requests reached it, {lost:,} answered ones did not",
    )
