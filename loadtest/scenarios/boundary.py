"""Bursts at both sides of a window's edge, for each algorithm: the place where their promises differ."""

from collections import defaultdict

from kit.verdict import judge_answers, judge_limits, judge_record
from scenarios import keyed

SECONDS = 60
LIMIT, WINDOW, BURST = 20, 2, 30
# The time from the first burst to the edge, and from the edge to the second burst, in seconds.
BEFORE, AFTER = 0.8, 0.03
API = {"workers": 64, "service_time": 0.005, "queue": 2000}
PATIENCE = 10

QUOTA = {
    "token_bucket": {"capacity": LIMIT, "refill": f"{LIMIT // WINDOW}/s"},
    "leaky_bucket": {"queue": LIMIT, "drain": f"{LIMIT // WINDOW}/s"},
    "fixed_window": {"limit": LIMIT, "window": f"{WINDOW}s"},
    "sliding_window_log": {"limit": LIMIT, "window": f"{WINDOW}s"},
    "sliding_window_counter": {"limit": LIMIT, "window": f"{WINDOW}s"},
}
EXTRA = {"window": WINDOW, "burst": BURST, "before": BEFORE, "after": AFTER}


def prepare(api, processes, options):
    names = [algorithm.replace("_", "-") for algorithm in QUOTA]
    riders, entries = keyed(names, processes)
    for one, name in zip(riders, names):
        one["path"] = f"/api/{name}"
    config = {
        "clients": [{"api_key": {"keys": entries, "unknown": "reject"}}, {"ip": {}}],
        "limits": {name: {algorithm: quota} for name, (algorithm, quota) in zip(names, QUOTA.items())},
        "routes": [{"name": name, "path": f"/api/{name}", "upstream": api, "limits": [name]} for name in names],
    }
    return config, riders


def judge(verdict, rules, run):
    judge_answers(verdict, rules, run.requests)
    judge_limits(verdict, rules, run.requests, run.arrivals, run.outage, run.least)
    judge_record(verdict, run.requests, run.arrivals)

    by_limit = defaultdict(list)
    for note in run.notes:
        by_limit[note["client"].removeprefix("api_key:")].append(note)
    for name in rules.limits:
        notes = by_limit[name]
        # A burst that a busy machine drew out over the edge does not count. Nor does a burst in an outage, when each gateway
        # has a share.
        fit = [note for note in notes if note["answered"] < note["edge"] and not run.in_outage(note["edge"])]
        before = [note["admitted_before"] for note in fit]
        after = [note["admitted_after"] for note in fit]
        waiting = name == "leaky-bucket"  # its answers come when it is their turn, so it is seen after the edge
        if waiting:
            fit = [note for note in notes if not run.in_outage(note["edge"])]
            before, after = ([note[which] for note in fit] for which in ("admitted_before", "admitted_after"))
        verdict.say(
            len(fit) >= (1 if run.outage else 2) and min(before) >= LIMIT,
            f"{name}: of {BURST} right before an edge {shown(before)} were admitted, and of {BURST} right after it "
            f"{shown(after)}, in {len(fit)} of {len(notes)} bursts",
        )
        told = [note for note in notes if note["waited"] and not run.in_outage(note["edge"])]
        late = sum(note["status_then"] != 200 for note in told)
        verdict.say(
            late == 0 and told,
            f"{name}: who waited as Retry-After says was refused {late} times of {len(told)}",
        )


def shown(counts):
    if not counts:
        return "none"
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
