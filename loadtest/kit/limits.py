"""A limit as the configuration has it, and a plain model of each algorithm.

The model is the algorithm as docs/limits.md promises it, without any code of the gateway. The gateway should admit the same requests
of the riders, except for the time that a request is on its way. Time is in microseconds.
"""

from collections import deque
from dataclasses import dataclass
from math import ceil

SECOND = 1_000_000
UNITS = {"ms": SECOND // 1000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}


def microseconds(text):
    """Converts 250ms, 2s or 1m."""
    unit = "ms" if text.endswith("ms") else text[-1]
    return int(text[: -len(unit)]) * UNITS[unit]


@dataclass(frozen=True)
class Limit:
    """One limit, by its entry under `limits`."""

    name: str
    algorithm: str
    quota: int  # capacity, queue or limit
    rate: tuple  # so many per so many microseconds, for buckets
    window: int  # in microseconds, for windows
    per: tuple

    @classmethod
    def of(cls, name, written):
        algorithm = next(key for key in written if key in MODELS)
        numbers = written[algorithm]
        rate, window = (0, 1), 0
        if "window" in numbers:
            window = microseconds(numbers["window"])
        else:
            many, unit = str(numbers.get("refill", numbers.get("drain"))).split("/")
            rate = (int(many), UNITS[unit])
        quota = numbers.get("capacity", numbers.get("queue", numbers.get("limit")))
        return cls(name, algorithm, int(quota), rate, window, tuple(written.get("per", ["client"])))

    def key(self, client, address):
        """Returns the key under which a request of this client is counted."""
        if self.per == ("client",):
            return client
        if self.per == ("ip",):
            return address
        assert self.per == (), f"{self.name}: per {self.per} is not modelled"
        return "all"

    def longest_wait(self):
        """Returns the largest Retry-After, in seconds, for a request that costs 1."""
        if self.window:
            return ceil(2 * self.window / SECOND)
        many, span = self.rate
        return max(1, ceil(span / many / SECOND))

    def at_most(self, span):
        """Returns the exact number of requests that a bucket can admit in `span` microseconds."""
        many, per = self.rate
        return self.quota + many * span // per

    def model(self):
        return MODELS[self.algorithm](self)


class Bucket:
    """Token bucket and leaky bucket: a debt, in units of 1/`span` of a request, paid off `many` units a microsecond."""

    def __init__(self, limit):
        self.many, self.span = limit.rate
        self.capacity = limit.quota * self.span
        self.debt, self.at = 0, 0

    def admits(self, now):
        self.debt = max(0, self.debt - self.many * max(0, now - self.at))
        self.at = max(self.at, now)
        return self.debt + self.span <= self.capacity

    def charge(self, now):
        self.debt += self.span


class FixedWindow:
    def __init__(self, limit):
        self.limit, self.size = limit.quota, limit.window
        self.window, self.count = None, 0

    def admits(self, now):
        if now // self.size != self.window:
            self.window, self.count = now // self.size, 0
        return self.count < self.limit

    def charge(self, now):
        self.count += 1


class SlidingLog:
    def __init__(self, limit):
        self.limit, self.size = limit.quota, limit.window
        self.stamps = deque()

    def admits(self, now):
        while self.stamps and self.stamps[0] <= now - self.size:
            self.stamps.popleft()
        return len(self.stamps) < self.limit

    def charge(self, now):
        self.stamps.append(now)


class SlidingCounter:
    def __init__(self, limit):
        self.limit, self.size = limit.quota, limit.window
        self.window, self.current, self.previous = None, 0, 0

    def admits(self, now):
        window = now // self.size
        if window != self.window:
            follows = self.window is not None and window == self.window + 1
            self.window, self.previous, self.current = window, self.current if follows else 0, 0
        left = self.size - now % self.size
        return (self.current + 1) * self.size + self.previous * left <= self.limit * self.size

    def charge(self, now):
        self.current += 1


MODELS = {
    "token_bucket": Bucket,
    "leaky_bucket": Bucket,
    "fixed_window": FixedWindow,
    "sliding_window_log": SlidingLog,
    "sliding_window_counter": SlidingCounter,
}
