-- The part that the three forms share. KEYS[1]: the log; ARGV: limit, window in microseconds, cost.
-- Each form adds decide(now), which returns {admitted, remaining, retry after, reset after}.
--
-- A stamp is dead when it is out of the window. Each call that adds a stamp drops the dead ones, so the first stamp is less
-- than a window older than the last stamp. If the last stamp is ahead of the clock by more than a window, all stamps are
-- ahead. The clock then stepped back, and all stamps are moved to now.

local key, limit, window, cost = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function whole(n) return string.format('%.0f', n) end       -- Lua's own conversion may round a stamp
local function expire(last, now) redis.call('PEXPIRE', key, whole(math.ceil((last + window - now) / 1000) + 1)) end
local function refuse(live, leaves, last, now)
  return {0, math.max(0, limit - live), leaves + window - now, last + window - now}
end
local function admit(live, last, now) return {1, limit - live - cost, 0, last + window - now} end
local function dead_of(used, edge, at)                            -- the number of dead stamps: doubling steps, then halves
  local low, step = 0, 1
  while low + step <= used and at(low + step - 1) <= edge do low = low + step; step = low end
  local high = math.min(used, low + step - 1)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if at(middle) <= edge then low = middle + 1 else high = middle end
  end
  return low
end
