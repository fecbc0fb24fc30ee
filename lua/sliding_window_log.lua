-- sliding_window_log: the exact sliding window. The other writing of crates/core/src/sliding_window_log.rs.
-- Kept as a list, oldest first, with one entry per admitted request: "stamp", or "stamp units extra" once a request has
-- cost more than 1. `extra` counts the units beyond one per entry, in this entry and all before it. So the units between
-- two entries are known from these two, and nothing has to be added up. Numbers of a quota: limit, window.

local sliding_window_log = { numbers = 2 }

-- The largest integer that is exact.
local MOST = 9007199254740991
-- The largest limit that a log can have.
local LARGEST = 1000000
-- A give-back rewrites all later entries if one of them has cost more than 1, and else searches them. If there are more
-- than so many, which would hold Redis up for milliseconds, the charge stays.
local MOST_REWRITTEN = 1000
local MOST_SEARCHED = 20000

-- The stamp, the units and the extra that an entry's text says.
local function read(text)
  local stamp = tonumber(text)
  if stamp then return stamp, 1, 0 end
  local units, extra
  stamp, units, extra = string.match(text, '^(%d+) (%d+) (%d+)$')
  -- Whatever else stands there is an error.
  return stamp + 0, units + 0, extra + 0
end

-- The same of the entry with this index; nothing if there is none.
local function entry_at(key, index)
  local text = redis.call('LINDEX', key, index)
  if text then return read(text) end
end

local function text_of(stamp, units, extra)
  if extra == 0 then return string.format('%d', stamp) end
  return string.format('%d %d %d', stamp, units, extra)
end

-- The index of the first entry from `first` on whose stamp is greater than `stamp`; `count` if there is none. Entries
-- from `last` on are known to be greater.
local function first_after(key, stamp, first, last)
  while first < last do
    local middle = math.floor((first + last) / 2)
    if entry_at(key, middle) <= stamp then first = middle + 1 else last = middle end
  end
  return first
end

-- How many of the oldest entries have left the window: gallops from the head, where LINDEX is cheapest, then halves.
local function dead_count(key, count, edge)
  local dead, probe = 0, 1
  while probe <= count and entry_at(key, probe - 1) <= edge do
    dead, probe = probe, probe * 2
  end
  return first_after(key, edge, dead, math.min(probe - 1, count))
end

-- The index of the first entry with this stamp or a later one: gallops from the tail.
local function first_from(key, count, stamp)
  local first, probe = count, 1
  while probe <= count and entry_at(key, count - probe) >= stamp do
    first, probe = count - probe, probe * 2
  end
  return first_after(key, stamp - 1, math.max(0, count - probe), first)
end

-- The extra of all entries before this one.
local function extra_before(key, index)
  local _, units, extra = entry_at(key, index)
  return extra - units + 1
end

local function keep(key, stamp, window, now)
  redis.call('PEXPIRE', key, math.max(1, math.ceil((stamp + window - now) / 1000) + 1))
end

-- Drops the entries from `first` on, and says what the extra goes on from: once there are none, it is counted anew.
local function cut(key, first, extra)
  if first > 0 then
    redis.call('LTRIM', key, 0, first - 1)
    return extra
  end
  redis.call('DEL', key)
  return 0
end

-- Moves entries ahead of the clock to `now`, as one: it stepped back by more than a window. How many entries there are
-- then, and the extra of all.
local function heal(key, count, extra, now, window)
  local first = first_after(key, now, 0, count)
  local before = extra_before(key, first)
  local units = count - first + extra - before
  extra = cut(key, first, before) + units - 1
  redis.call('RPUSH', key, text_of(now, units, extra))
  keep(key, now, window, now)
  return first + 1, extra
end

-- How long until `missing` units have left the window, of the entries from `dead` on.
local function leaves_after(key, count, dead, before, extra, missing, window, now)
  local index = dead + missing - 1
  if extra > before then
    -- The first entry up to which there are as many.
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

function sliding_window_log.counts(at, now, quota)
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
      -- The extra is counted anew.
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
    -- As many of the oldest units must leave as do not fit.
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
  -- Stamps never decrease: after a step back of the clock the newest one is used again until it catches up.
  local stamp = math.max(now, verdict.last or now)
  -- One that is as large as any limit keeps everything else out until it leaves.
  local units = math.min(cost, LARGEST)
  if verdict.dead > 0 then redis.call('LTRIM', key, verdict.dead, -1) end
  redis.call('RPUSH', key, text_of(stamp, units, math.min(verdict.extra + units - 1, MOST)))
  verdict.remaining = math.max(0, verdict.remaining - cost)
  verdict.reset = stamp + quota[2] - now
  keep(key, stamp, quota[2], now)
end

-- Takes up to `cost` units of one stamp from the entries from `first` on, and writes all of these anew.
local function rewrite(key, first, cost, stamp)
  local texts, kept = redis.call('LRANGE', key, first, -1), {}
  local extra = cut(key, first, extra_before(key, first))
  for _, text in ipairs(texts) do
    local at, units = read(text)
    if at == stamp then
      local taken = math.min(units, cost)
      units, cost = units - taken, cost - taken
    end
    if units > 0 then
      extra = extra + units - 1
      kept[#kept + 1] = text_of(at, units, extra)
    end
  end
  if #kept > 0 then redis.call('RPUSH', key, unpack(kept)) end
end

function sliding_window_log.give_back(key, now, cost, quota, receipt)
  local window, count = quota[2], redis.call('LLEN', key)
  if count == 0 then return end
  local stamp = receipt - window
  local first, last, _, extra = first_from(key, count, stamp), entry_at(key, -1)
  if first < count and entry_at(key, first) == stamp then
    if extra == 0 and math.min(first, count - first) <= MOST_SEARCHED then
      -- All entries of one stamp are equal. LREM stops after the last that it removes, so it begins at the nearer end.
      local equal = math.min(cost, first_after(key, stamp, first, count) - first)
      local text = string.format('%d', stamp)
      redis.call('LREM', key, first < count - first and equal or -equal, text)
    elseif extra > 0 and count - first <= MOST_REWRITTEN then
      rewrite(key, first, cost, stamp)
    end
    last = entry_at(key, -1)
  end
  if last then keep(key, last, window, now) end
end

algorithms.sliding_window_log = sliding_window_log
