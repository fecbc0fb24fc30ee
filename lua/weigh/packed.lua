-- A string: a header, then a ring of 8-byte stamps. The ring doubles when it is full, up to the limit.

local first, used, room, last                                     -- the header: oldest slot, number of stamps, number of slots, last stamp
local HEAD = 20
local function at(i)
  local from = HEAD + 8 * ((first + i) % room)
  return (struct.unpack('>I8', redis.call('GETRANGE', key, from, from + 7)))
end
local function add(i, stamp, n)                                   -- writes n stamps from the i-th on, and wraps around at the end
  local from, bytes = (first + i) % room, struct.pack('>I8', stamp)
  local fits = math.min(n, room - from)
  redis.call('SETRANGE', key, HEAD + 8 * from, bytes:rep(fits))
  if n > fits then redis.call('SETRANGE', key, HEAD, bytes:rep(n - fits)) end
end
local function save() redis.call('SETRANGE', key, 0, struct.pack('>I4I4I4I8', first, used, room, last)) end
local function grow(needed)                                       -- copies the live stamps to the front; empty slots follow
  local all = redis.call('GET', key) or ''
  local new = math.min(limit, math.max(4, needed, 2 * room))
  local live = (all:sub(HEAD + 1 + 8 * first) .. all:sub(HEAD + 1, HEAD + 8 * first)):sub(1, 8 * used)
  first, room = 0, new
  redis.call('SET', key, ('\0'):rep(HEAD) .. live .. ('\0'):rep(8 * (new - used)))
end
local function decide(now)
  local head = redis.call('GETRANGE', key, 0, HEAD - 1)
  if head == '' then first, used, room, last = 0, 0, 0, 0
  else first, used, room, last = struct.unpack('>I4I4I4I8', head) end
  if last > now + window then                                     -- the clock stepped back
    add(0, now, used)
    last = now
    save()
    expire(now, now)
  end
  local dead = dead_of(used, now - window, at)
  local live = used - dead
  if live + cost > limit then return refuse(live, at(used + cost - limit - 1), last, now) end
  if dead > 0 then first, used = (first + dead) % room, live end
  if live + cost > room then grow(live + cost) end
  last = math.max(now, last)
  add(live, last, cost)
  used = live + cost
  save()
  expire(last, now)
  return admit(live, last, now)
end
