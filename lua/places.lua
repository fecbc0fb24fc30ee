-- Places that requests hold while they are under way. The other writing of crates/core/src/places.rs.
-- Kept as a sorted set, one member per place, by the time at which it lapses; a member's name says nothing.

local places = {}

local function text(number) return string.format('%d', number) end

-- When the last one lapses; 0 if there is none.
function places.last(key)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  return tonumber(last[2] or 0)
end

local function expire(key, now)
  local last = places.last(key)
  if last > 0 then redis.call('PEXPIRE', key, math.max(1, math.ceil((last - now) / 1000) + 1)) end
end

-- How many are taken: those that have not lapsed. One that would last for longer than a lease is cut.
function places.taken(key, now, lease)
  local ahead = redis.call('ZRANGEBYSCORE', key, '(' .. text(now + lease), '+inf')
  for _, member in ipairs(ahead) do redis.call('ZADD', key, text(now + lease), member) end
  if #ahead > 0 then expire(key, now) end
  return redis.call('ZCOUNT', key, '(' .. text(now), '+inf')
end

function places.take(key, now, count, lapse)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now))
  local name, taken = redis.call('ZCARD', key), 0
  while taken < count do
    taken = taken + redis.call('ZADD', key, 'NX', text(lapse), text(lapse) .. '.' .. name)
    name = name + 1
  end
  expire(key, now)
end

-- Gives up to `count` back that lapse at `lapse`; how many there were.
function places.give_back(key, now, count, lapse)
  local found = redis.call('ZRANGEBYSCORE', key, text(lapse), text(lapse), 'LIMIT', 0, count)
  for _, member in ipairs(found) do redis.call('ZREM', key, member) end
  expire(key, now)
  return #found
end

-- Lets up to `count` that lapse at `lapse` last until `renewed`; one that has lapsed may be another's by now.
function places.renew(key, now, count, lapse, renewed)
  if lapse <= now then return 0 end
  local found = places.give_back(key, now, count, lapse)
  if found > 0 then places.take(key, now, found, renewed) end
  return found
end
