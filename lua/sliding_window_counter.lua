-- sliding_window_counter: two counts that approximate a sliding window. Computes the same as crates/core/src/sliding_window_counter.rs.
-- Numbers of a quota: limit, window, unit (the step in which elapsed time is measured, in us).

local sliding_window_counter = { numbers = 3 }

-- Returns the us from `start` until a refused cost fits: the smallest multiple of `unit` at which the formula admits the cost.
local function fits_after(current, previous, cost, limit, window, unit)
  local steps = window / unit
  local free = limit - current - cost
  if free >= 0 and previous > 0 then
    local share = math.floor(free * steps / previous)
    if share > 0 then return math.max(0, steps - share) * unit end
  end
  -- In the next window the current count becomes the previous one, and the new count is 0.
  local share = steps
  if current > 0 then share = math.floor((limit - cost) * steps / current) end
  return window + math.max(0, steps - share) * unit
end

function sliding_window_counter.counts_for(at, now, quota)
  local window = quota[2]
  return at - at % window + 2 * window - now
end

function sliding_window_counter.check(key, now, cost, quota)
  local limit, window, unit = quota[1], quota[2], quota[3]
  local steps = window / unit
  local start, current, previous = window_pair.load(key, window, now)
  local left = steps - math.floor(math.max(0, now - start) / unit)
  local free, remaining = math.max(0, limit - current) * steps, 0
  -- A count beyond the limit may be so large that a product with it is not exact. A quotient is exact.
  if previous == 0 or left <= math.floor(free / previous) then
    remaining = math.floor((free - previous * left) / steps)
  end
  local allowed = cost <= remaining
  return {
    allowed = allowed,
    remaining = remaining,
    reset = window_pair.reset(start, current, previous, window, now),
    retry_after = allowed and 0 or start + fits_after(current, previous, cost, limit, window, unit) - now,
    delay = 0,
    start = start,
    current = current,
    previous = previous,
  }
end

function sliding_window_counter.commit(key, now, cost, quota, verdict)
  verdict.remaining = verdict.remaining - cost
  window_pair.commit(key, now, cost, quota[2], verdict)
end

algorithms.sliding_window_counter = sliding_window_counter
