-- Places that requests hold while they are under way. The other writing of crates/core/src/places.rs.
-- Kept as a sorted set by the time at which places lapse, with one member per request: "name" for one place, "name*units"
-- for more. The member "extra" counts the units beyond one per member; its score is below 0, since it is no time. So the
-- units are known from how many members there are, and nothing has to be added up.

local places = {}

-- So many members are looked at in one call at most. What is beyond that is a member as good as any until the next call.
local MOST = 1000

local function text(number) return string.format('%d', number) end

-- When the last one lapses; 0 if there is none.
function places.last(key)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  return math.max(0, tonumber(last[2] or 0))
end

local function extra(key)
  return -tonumber(redis.call('ZSCORE', key, 'extra') or 0)
end

local function add_extra(key, units)
  if units == 0 then return end
  if tonumber(redis.call('ZINCRBY', key, text(-units), 'extra')) >= 0 then redis.call('ZREM', key, 'extra') end
end

-- The units of a member.
local function units_of(member)
  return tonumber(string.match(member, '%*(%d+)$') or 1)
end

local function expire(key, now)
  local last = places.last(key)
  if last > 0 then redis.call('PEXPIRE', key, math.max(1, math.ceil((last - now) / 1000) + 1)) end
end

-- Drops members that have lapsed.
local function sweep(key, now)
  local lapsed = redis.call('ZRANGEBYSCORE', key, '0', text(now), 'LIMIT', 0, MOST)
  if #lapsed == 0 then return end
  local units = 0
  for _, member in ipairs(lapsed) do units = units + units_of(member) - 1 end
  redis.call('ZREM', key, unpack(lapsed))
  add_extra(key, -units)
end

local function add(key, count, lapse)
  local name, suffix, added = redis.call('ZCARD', key), count > 1 and '*' .. text(count) or '', 0
  while added == 0 do
    added = redis.call('ZADD', key, 'NX', text(lapse), text(lapse) .. '.' .. name .. suffix)
    name = name + 1
  end
end

-- How many are taken: those that have not lapsed. One that would last for longer than a lease is cut. And when the last
-- one lapses.
function places.taken(key, now, lease)
  local last, most = places.last(key), now + lease
  if last > most then
    local ahead = redis.call('ZRANGEBYSCORE', key, '(' .. text(most), '+inf', 'LIMIT', 0, MOST)
    for _, member in ipairs(ahead) do redis.call('ZADD', key, text(most), member) end
    expire(key, now)
    last = most
  end
  local units = extra(key)
  if units > 0 then
    sweep(key, now)
    units = extra(key)
  end
  return redis.call('ZCOUNT', key, '(' .. text(now), '+inf') + units, last
end

-- Gives it a time to live if that was taken away, or is longer than it needs.
function places.bound(key, now)
  bound(key, math.max(0, places.last(key) - now))
end

function places.take(key, now, count, lapse)
  sweep(key, now)
  add(key, count, lapse)
  add_extra(key, count - 1)
  expire(key, now)
end

-- Gives up to `count` back that lapse at `lapse`; how many there were.
function places.give_back(key, now, count, lapse)
  local found = redis.call('ZRANGEBYSCORE', key, text(lapse), text(lapse), 'LIMIT', 0, math.min(count, MOST))
  local rest, more = count, 0
  for _, member in ipairs(found) do
    if rest == 0 then break end
    local units = units_of(member)
    local taken = math.min(units, rest)
    redis.call('ZREM', key, member)
    rest, more = rest - taken, more - units + 1
    if taken < units then
      add(key, units - taken, lapse)
      more = more + units - taken - 1
    end
  end
  add_extra(key, more)
  expire(key, now)
  return count - rest
end

-- Lets up to `count` that lapse at `lapse` last until `renewed`; one that has lapsed may be another's by now.
function places.renew(key, now, count, lapse, renewed)
  if lapse <= now then return 0 end
  local found = places.give_back(key, now, count, lapse)
  if found > 0 then places.take(key, now, found, renewed) end
  return found
end
