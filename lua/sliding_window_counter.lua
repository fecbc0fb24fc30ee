-- sliding_window_counter: two counts that approximate a sliding window. Computes the same as crates/core/src/sliding_window_counter.rs. A
-- record is "start current previous": the start of a window, and the counts of that window and of the window before. Numbers of a quota:
-- limit, window, unit (the step in which elapsed time is measured, in us).

local sliding_window_counter = { numbers = 3 }

-- The largest count of a window, because quotients of numbers up to 2^52 are exact.
local largest_count = 4503599627370496

-- Returns the time until neither window counts, in us.
local function reset(start, current, previous, window, now)
  if current > 0 then return start + 2 * window - now end
  if previous > 0 then return start + window - now end
  return 0
end

local function save(key, start, current, previous, window, now)
  local windows = current > 0 and 2 or 1
  record(key, start + windows * window - now, start, current, previous)
end

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
  local start, current, previous = now - now % window, 0, 0
  local old_start, old_current, old_previous = recall(key, '^(%d+) (%d+) (%d+)$')
  if old_start then
    old_current = math.min(old_current, largest_count)
    old_previous = math.min(old_previous, largest_count)
    if old_start > now + window then
      -- The clock stepped back by more than a window: the counts move to the current window.
      current, previous = old_current, old_previous
      save(key, start, current, previous, window, now)
    elseif old_start >= start then
      start, current, previous = old_start, old_current, old_previous
    elseif old_start + window == start then
      previous = old_current
    end
  end
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
    reset = reset(start, current, previous, window, now),
    retry_after = allowed and 0 or start + fits_after(current, previous, cost, limit, window, unit) - now,
    delay = 0,
    start = start,
    current = current,
    previous = previous,
  }
end

function sliding_window_counter.commit(key, now, cost, quota, verdict)
  local window, start, previous = quota[2], verdict.start, verdict.previous
  -- A cost that an answer sets may be of any size.
  local current = math.min(verdict.current + cost, largest_count)
  verdict.remaining = verdict.remaining - cost
  verdict.reset = reset(start, current, previous, window, now)
  save(key, start, current, previous, window, now)
end

algorithms.sliding_window_counter = sliding_window_counter
