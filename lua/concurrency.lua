-- concurrency: so many requests under way at a time. The other writing of crates/core/src/concurrency.rs.
-- Kept as places.lua has it. Numbers of a quota: limit, lease.

local concurrency = { numbers = 2 }

function concurrency.check(key, now, cost, quota)
  local limit, lease = quota[1], quota[2]
  local taken, last = places.taken(key, now, lease)
  local remaining = math.max(0, limit - taken)
  local allowed = cost <= remaining
  return {
    allowed = allowed,
    remaining = remaining,
    reset = math.max(0, last - now),
    -- Nobody knows when the next request ends.
    retry_after = allowed and 0 or 1000000,
    delay = 0,
    last = last,
  }
end

function concurrency.commit(key, now, cost, quota, verdict, hold)
  local lapse = now + quota[2]
  places.hold(key, now, hold, cost, quota[2], lapse, verdict.last)
  verdict.remaining = verdict.remaining - cost
  verdict.reset = math.max(verdict.last, lapse) - now
end

function concurrency.give_back(key, now, cost, quota, _, hold)
  places.give_back(key, now, hold, cost, quota[2])
end

algorithms.concurrency = concurrency
