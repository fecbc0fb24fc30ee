-- Counts the gateways that share this Redis: each calls this every few seconds with an ID of its own, and one that has not
-- called for `lapse` us is gone. Answers the time and how many there are. KEYS: the set of IDs by the time of their last call. ARGV: the ID, lapse.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lapse = tonumber(ARGV[2])

redis.call('ZADD', KEYS[1], string.format('%d', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now - lapse))
redis.call('PEXPIRE', KEYS[1], math.ceil(2 * lapse / 1000))
return { now, redis.call('ZCARD', KEYS[1]) }
