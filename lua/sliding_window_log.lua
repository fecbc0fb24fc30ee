-- sliding_window_log: the exact sliding window. The other writing of crates/core/src/sliding_window_log.rs.
-- Kept as a list of stamps, oldest first, one per unit admitted. Numbers of a quota: limit, window.

local sliding_window_log = { numbers = 2 }

local function stamp_at(key, index)
  local stamp = redis.call('LINDEX', key, index)
  return stamp and tonumber(stamp)
end

-- Appends in parts: a call cannot take more arguments than Lua's stack holds.
local function append(key, stamps)
  for first = 1, #stamps, 1000 do
    redis.call('RPUSH', key, unpack(stamps, first, math.min(first + 999, #stamps)))
  end
end

-- How many of the oldest stamps have left the window: gallops from the head, then halves.
local function dead_count(key, count, edge)
  local dead, probe = 0, 1
  while probe <= count and stamp_at(key, probe - 1) <= edge do
    dead, probe = probe, probe * 2
  end
  local live = math.min(probe - 1, count)
  while dead < live do
    local middle = math.floor((dead + live) / 2)
    if stamp_at(key, middle) <= edge then dead = middle + 1 else live = middle end
  end
  return dead
end

-- Moves stamps ahead of the clock to `now`: it stepped back by more than a window.
local function heal(key, now, window)
  local stamps = redis.call('LRANGE', key, 0, -1)
  local moved = string.format('%d', now)
  for i, stamp in ipairs(stamps) do
    if tonumber(stamp) > now then stamps[i] = moved end
  end
  redis.call('DEL', key)
  append(key, stamps)
  redis.call('PEXPIRE', key, math.ceil(window / 1000) + 1)
end

function sliding_window_log.counts(at, now, quota)
  return at + quota[2] - now
end

function sliding_window_log.check(key, now, cost, quota)
  local limit, window = quota[1], quota[2]
  local count, dead, last = redis.call('LLEN', key), 0, nil
  if count > 0 then
    last = stamp_at(key, -1)
    if last > now + window then
      heal(key, now, window)
      last = now
    end
    dead = dead_count(key, count, now - window)
    if dead == count then last = nil end
  end
  local live = count - dead
  local remaining = math.max(0, limit - live)
  local allowed = cost <= remaining
  return {
    allowed = allowed,
    remaining = remaining,
    reset = last and last + window - now or 0,
    -- As many of the oldest must leave as do not fit.
    retry_after = allowed and 0 or stamp_at(key, dead + live + cost - limit - 1) + window - now,
    delay = 0,
    dead = dead,
    last = last,
  }
end

function sliding_window_log.commit(key, now, cost, quota, verdict)
  -- Stamps never decrease: after a step back of the clock the newest one is used again until it catches up.
  local stamp = math.max(now, verdict.last or now)
  local text, stamps = string.format('%d', stamp), {}
  for i = 1, cost do stamps[i] = text end
  if verdict.dead > 0 then redis.call('LTRIM', key, verdict.dead, -1) end
  append(key, stamps)
  verdict.remaining = verdict.remaining - cost
  verdict.reset = stamp + quota[2] - now
  redis.call('PEXPIRE', key, math.ceil(verdict.reset / 1000) + 1)
end

function sliding_window_log.give_back(key, now, cost, quota, receipt)
  local window = quota[2]
  local removed = redis.call('LREM', key, -cost, string.format('%d', receipt - window))
  local last = removed > 0 and stamp_at(key, -1)
  if last then redis.call('PEXPIRE', key, math.max(1, math.ceil((last + window - now) / 1000))) end
end

algorithms.sliding_window_log = sliding_window_log
