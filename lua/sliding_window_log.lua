-- sliding_window_log: the exact sliding window. Computes the same as crates/core/src/sliding_window_log.rs.
-- A list, oldest first, with one entry per admitted request: "stamp", or "stamp units extra" once a request has cost more than 1. `extra`
-- counts the units beyond one per entry, in this entry and all before it. So two entries give the units between them, without a sum.
-- Numbers of a quota: limit, window.

local sliding_window_log = { numbers = 2 }

-- The largest exact integer, 2^53 - 1.
local MOST = 9007199254740991
-- The largest limit of a log.
local LARGEST = 1000000

-- Returns the stamp, the units and the extra of an entry.
local function read(text)
  local stamp = tonumber(text)
  if stamp then return stamp, 1, 0 end
  local units, extra
  stamp, units, extra = string.match(text, '^(%d+) (%d+) (%d+)$')
  -- If the text has another form, this line fails.
  return stamp + 0, units + 0, extra + 0
end

-- Returns the stamp, the units and the extra of the entry with this index, or no value if the entry is missing.
local function entry_at(key, index)
  local text = redis.call('LINDEX', key, index)
  if text then return read(text) end
end

local function text_of(stamp, units, extra)
  if extra == 0 then return string.format('%d', stamp) end
  return string.format('%d %d %d', stamp, units, extra)
end

-- Returns the index of the first entry from `first` on whose stamp is greater than `stamp`. All entries from `last` on have greater stamps.
local function first_after(key, stamp, first, last)
  while first < last do
    local middle = math.floor((first + last) / 2)
    if entry_at(key, middle) <= stamp then first = middle + 1 else last = middle end
  end
  return first
end

-- Returns the number of entries with stamps up to `edge`, which have left the window. Searches in doubling steps from the head, where
-- LINDEX is cheapest, then by halves.
local function dead_count(key, count, edge)
  local dead, probe = 0, 1
  while probe <= count and entry_at(key, probe - 1) <= edge do
    dead, probe = probe, probe * 2
  end
  return first_after(key, edge, dead, math.min(probe - 1, count))
end

-- Returns the extra of all entries before the entry with this index.
local function extra_before(key, index)
  local _, units, extra = entry_at(key, index)
  return extra - units + 1
end

local function keep(key, stamp, window, now)
  redis.call('PEXPIRE', key, math.max(1, math.ceil((stamp + window - now) / 1000) + 1))
end

-- Replaces all entries ahead of `now` by one entry at `now`: the clock stepped back by more than a window. Returns the new number of
-- entries, and the extra of the last entry.
local function heal(key, count, extra, now, window)
  local first = first_after(key, now, 0, count)
  local before = extra_before(key, first)
  local units = count - first + extra - before
  if first > 0 then
    redis.call('LTRIM', key, 0, first - 1)
    extra = before + units - 1
  else
    -- No entry is left before the new one, so the extra starts at 0 again.
    redis.call('DEL', key)
    extra = units - 1
  end
  redis.call('RPUSH', key, text_of(now, units, extra))
  keep(key, now, window, now)
  return first + 1, extra
end

-- Returns the time until `missing` units of the entries from `dead` on have left the window, in us.
local function leaves_after(key, count, dead, before, extra, missing, window, now)
  local index = dead + missing - 1
  if extra > before then
    -- The first entry at which the units from `dead` on reach `missing`.
    local first, last = dead, math.min(index, count - 1)
    while first < last do
      local middle = math.floor((first + last) / 2)
      local _, _, through = entry_at(key, middle)
      if middle - dead + 1 + through - before >= missing then last = middle else first = middle + 1 end
    end
    index = first
  end
  return entry_at(key, index) + window - now
end

function sliding_window_log.counts_for(at, now, quota)
  return at + quota[2] - now
end

function sliding_window_log.check(key, now, cost, quota)
  local limit, window = quota[1], quota[2]
  local count, dead, live, before, extra, last = redis.call('LLEN', key), 0, 0, 0, 0, nil
  if count > 0 then
    local _
    last, _, extra = entry_at(key, -1)
    if last > now + window then
      count, extra = heal(key, count, extra, now, window)
      last = now
    end
    dead = dead_count(key, count, now - window)
    if dead == count then
      -- No entry counts: the extra starts at 0 again.
      last, extra = nil, 0
    else
      if extra > 0 then before = extra_before(key, dead) end
      live = count - dead + extra - before
    end
  end
  local remaining = math.max(0, limit - live)
  local allowed = cost <= remaining
  local retry_after = 0
  if not allowed then
    -- The units that do not fit must leave, the oldest first.
    retry_after = leaves_after(key, count, dead, before, extra, live + cost - limit, window, now)
  end
  return {
    allowed = allowed,
    remaining = remaining,
    reset = last and last + window - now or 0,
    retry_after = retry_after,
    delay = 0,
    dead = dead,
    extra = extra,
    live = live,
    last = last,
  }
end

function sliding_window_log.commit(key, now, cost, quota, verdict)
  -- Stamps never decrease: after a step back of the clock the newest stamp is used again until the clock catches up.
  local stamp = math.max(now, verdict.last or now)
  -- With an entry of `LARGEST` units no other request fits until the entry leaves. So more units need not be stored.
  local units = math.min(cost, LARGEST)
  if verdict.dead > 0 then redis.call('LTRIM', key, verdict.dead, -1) end
  redis.call('RPUSH', key, text_of(stamp, units, math.min(verdict.extra + units - 1, MOST)))
  verdict.remaining = math.max(0, verdict.remaining - cost)
  verdict.reset = stamp + quota[2] - now
  keep(key, stamp, quota[2], now)
end

algorithms.sliding_window_log = sliding_window_log
