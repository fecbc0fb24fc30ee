-- concurrency: a number of requests under way at a time. Computes the same as crates/core/src/concurrency.rs. Counts holds alone
-- (holds.lua). Their ends and lapses charge no unit. Number of a quota: limit.

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

-- The end of the next request is unknown: retry after a second.
function concurrency.time() return 1000000 end

function concurrency.counts_for(at, now) return at - now end

algorithms.concurrency = concurrency
