"""Counts requests that got through and that no decision can explain.

Every request contains the time of its sending, and the API notes its arrival: the decision to admit it was in between.
So a request counts into a span of time only if it was sent and had arrived within it. A delay of a busy machine cannot
make a correct gateway fail here. A gateway that admits one request too many fails. Time is in microseconds.
"""

from bisect import bisect_left, bisect_right


def too_many(limit, spans, outage=None):
    """Returns the number of requests that were admitted beyond a limit; `spans` are (sent, arrived) of one key.

    An outage (from, to) in which the gateway counted on alone lets a key use its quota once more.
    """
    spans = sorted(spans)
    if not limit.window:
        return bucket(limit, spans, 2 if outage else 1)

    def quota(begin, end):
        """Returns the number that a window may hold. Where windows slide, the window before counts into it."""
        touched = outage and begin - limit.window < outage[1] and outage[0] - limit.window < end
        return limit.quota * (2 if touched else 1)

    return WINDOWS[limit.algorithm](limit.window, quota, spans)


def bucket(limit, spans, times=1):
    """Returns the most requests of any span of time beyond the bucket's capacity and its refill in that time.

    A span begins when a request is sent and ends when a request arrives. The loop takes arrivals in order, over a tree of
    the requests by the time they were sent. `held` of a node is the sum of its requests that have arrived. `most` is the
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
    """Returns the most requests that were surely admitted in less than a window's time, beyond its quota."""
    worst = 0
    for sent, _ in spans:
        end = sent + size - 1
        inside = bisect_left(spans, (sent, 0)), bisect_right(spans, (end, end))
        count = sum(1 for _, arrived in spans[inside[0] : inside[1]] if arrived <= end)
        worst = max(worst, count - quota(sent, end))
    return worst


def sliding_window_counter(size, quota, spans):
    """Returns the number of requests at which even the smallest possible estimate was above the limit.

    Take the requests that had arrived at some time. The last decision on them was before that time, and counted all others.
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
    """Returns the requests that were surely decided in one window, by the number of the window."""
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
