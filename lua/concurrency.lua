-- concurrency: limits the number of requests that run at a time. Computes the same as crates/core/src/concurrency.rs. Only holds count
-- (holds.lua). The ends and lapses of these holds charge no unit. A quota has one number: limit.

local concurrency = { numbers = 1, frees = true }

function concurrency.check(_, _, cost, quota)
  local allowed = cost <= quota[1]
  return {
    allowed = allowed,
    remaining = quota[1],
    reset = 0,
    retry_after = allowed and 0 or 1000000,
    delay = 0,
  }
end

function concurrency.commit() end

-- The time at which a running request ends is unknown, so a refused request may retry after a second.
function concurrency.time() return 1000000 end

function concurrency.counts_for(at, now) return at - now end

algorithms.concurrency = concurrency
