-- fixed_window: at most the limit per window. Computes the same as crates/core/src/fixed_window.rs.
-- Numbers of a quota: limit, window (window.lua).

local fixed_window = { numbers = 2, commit = window.commit }

function fixed_window.counts_for(at, now, quota)
  local length = quota[2]
  return at - at % length + length - now
end

function fixed_window.check(key, now, cost, quota)
  local length = quota[2]
  local start = now - now % length
  return window.check(key, now, cost, quota[1], start, start + length, start + 2 * length)
end

algorithms.fixed_window = fixed_window
