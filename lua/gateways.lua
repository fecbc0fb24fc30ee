-- Counts the gateways that share this Redis. Each gateway calls this every few seconds with its own ID, and is gone if it has not called
-- for `lapse` us. Returns the time, the number of gateways, and the time of this ID's previous call (0: not in this Redis). The last number
-- reveals a Redis that has lost its data, or a replica that is behind.
-- KEYS: the sorted set of IDs by the time of their last call. ARGV: the ID, lapse.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lapse = tonumber(ARGV[2])

local function text(number) return string.format('%d', number) end

local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], text(now), ARGV[1])
-- Drops 1,000 IDs at most. An ID ahead of `now` stays, uncounted, until its gateway calls again: the clock stepped back.
local gone = redis.call('ZCOUNT', KEYS[1], '-inf', text(now - lapse))
if gone > 0 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, math.min(gone, 1000) - 1) end
redis.call('PEXPIRE', KEYS[1], math.ceil(2 * lapse / 1000))
return { now, redis.call('ZCOUNT', KEYS[1], '(' .. text(now - lapse), text(now)), before and tonumber(before) or 0 }
