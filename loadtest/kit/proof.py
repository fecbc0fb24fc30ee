"""How many requests got through that no decision can explain.

Every request says when it was sent, and the API notes when it arrived: the decision to admit it was made in between.
So a request counts into a span of time only if it was sent and had arrived within it. No delay of a busy machine makes
an honest gateway look guilty here; a gateway that admits one request too many does. Time is in microseconds.
"""

from bisect import bisect_left, bisect_right


def too_many(limit, spans, outage=None):
    """How many of these were admitted beyond a limit; `spans` are (sent, arrived) of one key.

    An outage (from, to) in which the gateway counted on alone lets a key use its quota once more.
    """
    spans = sorted(spans)
    if not limit.window:
        return bucket(limit, spans, 2 if outage else 1)

    def quota(begin, end):
        """What a window may hold; the one before counts into it where windows slide."""
        touched = outage and begin - limit.window < outage[1] and outage[0] - limit.window < end
        return limit.quota * (2 if touched else 1)

    return WINDOWS[limit.algorithm](limit.window, quota, spans)


def bucket(limit, spans, times=1):
    """The most that any span of time holds beyond the bucket's capacity and what it was refilled by in that time.

    A span begins when a request is sent and ends when one arrives. Arrivals are gone through in order, over a tree of the
    requests by when they were sent: of a node, `held` is what its requests that have arrived come to, and `most` the
    largest sum of held requests and earlier beginning, so that all spans that end here are compared in one step.
    """
    many, unit = limit.rate
    size = 1 << max(1, len(spans) - 1).bit_length()
    held, most = [0] * (2 * size), [float("-inf")] * (2 * size)
    worst = 0
    for arrived, place in sorted((arrived, place) for place, (_, arrived) in enumerate(spans)):
        node = size + place
        held[node], most[node] = unit, unit + many * spans[place][0]
        while node > 1:
            node //= 2
            left, right = 2 * node, 2 * node + 1
            held[node] = held[left] + held[right]
            most[node] = max(most[right], most[left] + held[right])
        worst = max(worst, most[1] - many * arrived)
    return max(0, -(-(worst - times * limit.quota * unit) // unit))


def fixed_window(size, quota, spans):
    beyond = 0
    for window, inside in by_window(size, spans).items():
        beyond += max(0, len(inside) - quota(window * size, (window + 1) * size))
    return beyond


def sliding_window_log(size, quota, spans):
    """Most that were surely admitted in less than a window's time, beyond what that may hold."""
    worst = 0
    for sent, _ in spans:
        end = sent + size - 1
        inside = bisect_left(spans, (sent, 0)), bisect_right(spans, (end, end))
        count = sum(1 for _, arrived in spans[inside[0] : inside[1]] if arrived <= end)
        worst = max(worst, count - quota(sent, end))
    return worst


def sliding_window_counter(size, quota, spans):
    """Those at which even the smallest estimate that is possible was above the limit.

    Of those that had arrived at some time, the last one to be decided was decided before it, with all others counted.
    """
    beyond = 0
    windows = by_window(size, spans)
    for window, inside in windows.items():
        before = len(windows.get(window - 1, []))
        for current, arrived in enumerate(sorted(arrived for _, arrived in inside), 1):
            left = (window + 1) * size - arrived
            beyond += before * left + current * size > quota(window * size, (window + 1) * size) * size
    return beyond


def by_window(size, spans):
    """Those that were surely decided in one window, by its number."""
    windows = {}
    for sent, arrived in spans:
        if sent // size == arrived // size:
            windows.setdefault(sent // size, []).append((sent, arrived))
    return windows


WINDOWS = {
    "fixed_window": fixed_window,
    "sliding_window_log": sliding_window_log,
    "sliding_window_counter": sliding_window_counter,
}
