-- A sorted set: the score is the stamp. The member is unique, because a set keeps equal members only once.

local function add(stamp, n)                                      -- a member is the stamp and a number
  local text = whole(stamp)
  local same = redis.call('ZCOUNT', key, text, text)
  for i = same + 1, same + n do redis.call('ZADD', key, text, text .. ':' .. i) end
end
local function decide(now)
  local last = tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] or 0)
  if last > now + window then                                     -- the clock stepped back
    local used = redis.call('ZCARD', key)
    redis.call('DEL', key)
    add(now, used)
    expire(now, now)                                              -- a refused call sets no expiry
    last = now
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', whole(now - window))
  local live = redis.call('ZCARD', key)
  if live + cost > limit then
    local i = live + cost - limit - 1
    return refuse(live, redis.call('ZRANGE', key, i, i, 'WITHSCORES')[2], last, now)
  end
  last = math.max(now, last)
  add(last, cost)
  expire(last, now)
  return admit(live, last, now)
end
