-- Counts the gateways that share this Redis. Each gateway calls this script every few seconds with its own ID. A gateway that has not
-- called for `lapse` us counts as gone. Returns the time, the number of gateways, and the time of this ID's previous call (0: this Redis
-- has no previous call). This time shows the gateway that Redis has lost its data, or is a replica that lacks the last writes.
-- KEYS: the sorted set of IDs by the time of their last call. ARGV: the ID, lapse.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lapse = tonumber(ARGV[2])

local function text(number) return string.format('%d', number) end

local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], text(now), ARGV[1])
-- Drops 1,000 IDs at most. If the clock stepped back, the last call of an ID may be ahead of `now`. Such an ID is not counted until its
-- gateway calls again.
local gone = redis.call('ZCOUNT', KEYS[1], '-inf', text(now - lapse))
if gone > 0 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, math.min(gone, 1000) - 1) end
redis.call('PEXPIRE', KEYS[1], math.ceil(2 * lapse / 1000))
return { now, redis.call('ZCOUNT', KEYS[1], '(' .. text(now - lapse), text(now)), before and tonumber(before) or 0 }
