-- Two counts, of a window and of the window before it. Computes the same as `WindowPair` in crates/core/src/counter.rs. A record is
-- "start current previous".

local window_pair = {}

-- The largest count of a window, because quotients of numbers up to 2^52 are exact.
window_pair.largest = 4503599627370496

-- Returns the time until neither window counts.
function window_pair.reset(start, current, previous, window, now)
  if current > 0 then return start + 2 * window - now end
  if previous > 0 then return start + window - now end
  return 0
end

function window_pair.save(key, start, current, previous, window, now)
  local windows = current > 0 and 2 or 1
  record(key, start + windows * window - now, start, current, previous)
end

-- Returns the start of the current window, its count, and the count of the window before it, given the same of a window before.
function window_pair.settled(old_start, current, previous, window, now)
  local start = now - now % window
  if old_start >= start then return old_start, current, previous end
  if old_start + window == start then return start, 0, current end
  return start, 0, 0
end

-- Returns the start of the current window, its count, and the count of the window before it.
function window_pair.load(key, window, now)
  local start = now - now % window
  local old_start, current, previous = recall(key, '^(%d+) (%d+) (%d+)$')
  if not old_start then return start, 0, 0 end
  current, previous = math.min(current, window_pair.largest), math.min(previous, window_pair.largest)
  if old_start > now + window then
    -- The clock stepped back by more than a window: the counts move to the current window.
    window_pair.save(key, start, current, previous, window, now)
    return start, current, previous
  end
  return window_pair.settled(old_start, current, previous, window, now)
end

-- Charges a cost after a check, whose verdict has `start`, `current` and `previous`.
function window_pair.commit(key, now, cost, window, verdict)
  -- A cost that an answer sets may be of any size.
  local current = math.min(verdict.current + cost, window_pair.largest)
  verdict.reset = window_pair.reset(verdict.start, current, verdict.previous, window, now)
  window_pair.save(key, verdict.start, current, verdict.previous, window, now)
end
