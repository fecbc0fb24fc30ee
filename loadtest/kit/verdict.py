"""The verdict on a run: sentences, each true or false. A false sentence makes the run fail."""

from collections import Counter, defaultdict

from kit import proof
from kit.limits import Limit


# The number of requests that do not matter, because they were in flight when the state changed.
ODD = 3


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
    """The limits that a request is charged to, from a gateway's configuration."""

    def __init__(self, config):
        self.limits = {name: Limit.of(name, written) for name, written in config["limits"].items()}
        always = config.get("always", [])
        self.routes = {route["path"]: always + route.get("limits", []) for route in config["routes"]}

    def charges(self, path, client, address):
        """Returns the limits of a request, with the key of each."""
        names = self.routes.get(path, [])
        return [(self.limits[name], self.limits[name].key(client, address)) for name in names]


def replayed(rules, requests):
    """Replays requests in the order of their sending; returns a list with true for each that the models admit."""
    models = {}
    admitted = []
    for request in requests:
        charges = rules.charges(request.path, request.client, request.address)
        found = []
        for limit, key in charges:
            if (limit.name, key) not in models:
                models[limit.name, key] = limit.model()
            found.append(models[limit.name, key])
        # All limits admit, or none is charged. Each model is called, because a call sets its time.
        fits = all([model.admits(request.sent) for model in found])
        if fits:
            for model in found:
                model.charge(request.sent)
        admitted.append(fits)
    return admitted


def judge_limits(verdict, rules, requests, arrivals, outage=None, least=0.95):
    """Checks that no key got more than its limit, or less than the part `least` of the requests that the models admit."""
    addresses = {request.client: request.address for request in requests}
    spans, got, expected = defaultdict(list), defaultdict(Counter), defaultdict(Counter)

    def count(into, limit, key, charges, many=1):
        # If all also compete for a shared limit, chance decides between them, and only the sum can be compared.
        chance = any(other.per == () and other is not limit for other, _ in charges)
        into[limit.name][None if chance else key] += many

    for arrival in arrivals:
        charges = rules.charges(arrival.path, arrival.client, addresses.get(arrival.client))
        for limit, key in charges:
            spans[limit.name, key].append((arrival.sent, arrival.at))
            count(got, limit, key, charges)
    for request, fits in zip(requests, replayed(rules, requests)):
        charges = rules.charges(request.path, request.client, request.address)
        for limit, key in charges:
            count(expected, limit, key, charges, int(fits))

    for name, limit in rules.limits.items():
        of_limit = [times for (of, _), times in spans.items() if of == name]
        under = "one key" if len(of_limit) == 1 else f"{len(of_limit):,} keys"
        beyond = sum(proof.too_many(limit, times, outage) for times in of_limit)
        verdict.say(
            beyond == 0,
            f"{name}: {got[name].total():,} requests reached the API, under {under}, and {beyond:,} of them beyond what "
            f"{name} allows",
        )
        short = [key for key, many in expected[name].items() if got[name][key] < least * many - ODD]
        whole = expected[name].total()
        verdict.say(
            got[name].total() >= least * whole - ODD and not short,
            f"{name}: the models admit {whole:,} of the same requests, and at least {least:.0%} of that is asked for; "
            f"{len(short):,} keys got clearly less",
        )


def judge_answers(verdict, rules, requests, may_fail=0):
    """Checks that every answer is from the API or a correct 429."""
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
    """Checks that the records of riders and the API agree: no 429 reached the API, and every 200 did."""
    arrived = {(arrival.client, arrival.sent) for arrival in arrivals}
    refused = sum((request.client, request.sent) in arrived for request in requests if request.status == 429)
    lost = sum((request.client, request.sent) not in arrived for request in requests if request.status == 200)
    verdict.say(
        refused == 0 and lost == 0,
        f"the API's own record: {refused:,} refused requests reached it, {lost:,} answered ones did not",
    )
