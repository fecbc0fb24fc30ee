-- A list of stamps that never decrease. New stamps are added at the tail, and dead stamps are cut off at the head.

local function at(i) return tonumber(redis.call('LINDEX', key, i)) end
local function add(stamp, n) for _ = 1, n do redis.call('RPUSH', key, whole(stamp)) end end
local function decide(now)
  local used = redis.call('LLEN', key)
  local last = at(-1) or 0
  if last > now + window then                                     -- the clock stepped back
    redis.call('DEL', key)
    add(now, used)
    expire(now, now)                                              -- a refused call sets no expiry
    last = now
  end
  local dead = dead_of(used, now - window, at)
  local live = used - dead
  if live + cost > limit then return refuse(live, at(used + cost - limit - 1), last, now) end
  if dead > 0 then redis.call('LTRIM', key, dead, -1) end
  last = math.max(now, last)
  add(last, cost)
  expire(last, now)
  return admit(live, last, now)
end
