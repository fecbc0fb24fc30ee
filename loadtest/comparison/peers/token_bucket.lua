-- The token bucket that recipes for Redis commonly show: a hash with the tokens left, and the time of this number.
local capacity, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = capacity
if state[1] then tokens = math.min(capacity, state[1] + (now - state[2]) * rate) end
if tokens < 1 then return { 0, 0, math.ceil((1 - tokens) / rate) } end
tokens = tokens - 1
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[1], math.ceil(capacity / rate) + 1)
return { 1, math.floor(tokens), 0 }
