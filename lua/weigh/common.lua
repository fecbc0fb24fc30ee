-- The part that the three forms share. KEYS[1]: the log; ARGV: limit, window in microseconds, cost.
-- Each form adds decide(now), which answers {admitted, remaining, retry after, reset after}.
--
-- No stamp is older than the last one by a window or more, because whatever adds a stamp drops the dead. So if the last
-- one is ahead of the clock by more than a window, all are: the clock stepped back, and all are moved to now.

local key, limit, window, cost = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function whole(n) return string.format('%.0f', n) end       -- Lua's own conversion may round a stamp
local function expire(last, now) redis.call('PEXPIRE', key, whole(math.ceil((last + window - now) / 1000) + 1)) end
local function refuse(live, leaves, last, now)
  return {0, math.max(0, limit - live), leaves + window - now, last + window - now}
end
local function admit(live, last, now) return {1, limit - live - cost, 0, last + window - now} end
local function dead_of(used, edge, at)                            -- how many are dead: steps that double, then halves
  local low, step = 0, 1
  while low + step <= used and at(low + step - 1) <= edge do low = low + step; step = low end
  local high = math.min(used, low + step - 1)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if at(middle) <= edge then low = middle + 1 else high = middle end
  end
  return low
end
