"""The aims of the comparison: a sentence for each aim, true or false. An aim that was not measured has no sentence."""

from comparison.gateways import REFUSES
from comparison.load import OTHER
from comparison.rows import GROUPS
from kit.verdict import Verdict

KILOBYTE = 1024
LOG = 2  # us: the most that an access log in a file may add
SCRIPTS = 2 * REFUSES.rate  # a second: of one client's flood Redis is asked for what it lets through, and hardly more


def verdict(results):
    found = Verdict()
    full, half, idle = (results.medians(part) for part in (results.full, results.half, results.idle))

    def ratio(first, second, part="full", key="cpu_us"):
        """Returns the greater of the median of the rounds' ratios and the ratio of the medians, which noise moves apart."""
        medians = results.medians(getattr(results, part))
        if first in medians and second in medians:
            return max(results.times(first, second, part, key), medians[first][key] / medians[second][key])
        return None

    def cpu(name):
        return full[name]["cpu_us"]

    def compare(first, second, wanted, words):
        times = ratio(first, second)
        if times:
            said = f"{words}: {cpu(first):.1f} us against {cpu(second):.1f}, {times:.2f} times; wanted: {wanted:g} or less"
            found.say(times <= wanted, said)

    def logs(verb):
        """Compares the cost of the access log with the cost of nginx's log."""
        parts = [f"default {verb}", f"memory {verb}", f"nginx logged {verb}", f"nginx {verb}"]
        if all(name in full for name in parts):
            ours, its = (cpu(logged) - cpu(silent) for logged, silent in (parts[:2], parts[2:]))
            said = f"{verb}, the access log in a file: {ours:.1f} us more than without, nginx's {its:.1f}"
            found.say(ours <= LOG, f"{said}; wanted: {LOG:g} or less")

    logs("admitted")
    logs("refused")
    compare("memory admitted", "nginx admitted", 1, "admitted in memory, beside nginx")
    compare("memory refused", "nginx refused", 1, "refused in memory, beside nginx")
    compare("exact refused", "nginx refused", 1, "refused on Redis, beside nginx's own counting")
    if "exact refused" in full:
        asked = full["exact refused"]["scripts_per_second"]
        said = f"refused on Redis: {asked:,.0f} scripts a second, however many requests"
        found.say(asked <= SCRIPTS, f"{said}; wanted: {SCRIPTS} or less, of which {REFUSES.rate} admit one")
    compare("exact admitted", "nginx admitted", 1.5, "admitted on Redis, `exact`, beside nginx's own counting")
    if "exact admitted" in full:
        redis = full["exact admitted"]["redis_cpu_us"]
        found.say(redis <= 10, f"admitted on Redis, `exact`: Redis takes {redis:.1f} us a request; wanted: 10 or less")
    if "exact admitted" in half and "memory admitted" in half:
        on_redis, in_memory = half["exact admitted"]["p99_us"], half["memory admitted"]["p99_us"]
        times = ratio("exact admitted", "memory admitted", "half", "p99_us")
        said = f"p99 at half of the top rate, on Redis and in memory: {on_redis:,.0f} and {in_memory:,.0f} us"
        found.say(times <= 1.5, f"{said}, {times:.2f} times; wanted: 1.5 or less")
    compare("leased admitted", "memory admitted", 1.15, "`leased`, beside memory")
    if "memory admitted" in idle:
        each = idle["memory admitted"]["bytes_each"]
        said = f"{results.connections_idle:,} idle connections: {each / KILOBYTE:.1f} KB each; wanted: 10 or less"
        found.say(each <= 10 * KILOBYTE, said)
    compare("two threads", "memory admitted", 1.1, "two threads, beside one")
    for group in OTHER:
        traffic = GROUPS[group].partition(":")[0]
        compare(f"memory {group}", f"nginx {group}", 1.25, f"{traffic}, beside nginx")
        compare(f"memory {group}", f"haproxy {group}", 1, f"{traffic}, beside HAProxy")
    return found
