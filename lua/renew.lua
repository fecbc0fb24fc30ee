-- Renews places that a request holds, which lapse at one time; answers when they lapse now, or 0 if they have been lost.
-- KEYS: the places. ARGV: how many, when they lapse, and how long they are to last from now.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local count, lapse, lease = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local renewed = places.renew(KEYS[1], now, count, lapse, now + lease)
return { now, renewed == count and now + lease or 0 }
