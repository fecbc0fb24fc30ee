-- Counts the gateways that share this Redis: each calls this every few seconds with an ID of its own, and one that has not
-- called for `lapse` us is gone. Answers the time, how many there are, and when this ID had called last as far as this
-- Redis knows (0: never). A Redis that has lost its data, or a replica that is behind, shows itself by the last number.
-- KEYS: the set of IDs by the time of their last call. ARGV: the ID, lapse.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lapse = tonumber(ARGV[2])

local function text(number) return string.format('%d', number) end

local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], text(now), ARGV[1])
-- So many at once at most, whatever stands there. One ahead of the clock is of a clock that stepped back, and calls again.
local gone = redis.call('ZCOUNT', KEYS[1], '-inf', text(now - lapse))
if gone > 0 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, math.min(gone, 1000) - 1) end
redis.call('PEXPIRE', KEYS[1], math.ceil(2 * lapse / 1000))
return { now, redis.call('ZCOUNT', KEYS[1], '(' .. text(now - lapse), text(now)), before and tonumber(before) or 0 }
