-- Resets limits whose keys share a slot. Limits that gateways count by themselves (mode `synced`) count a gateway's requests again after
-- the next exchange of that gateway. Returns the time and 1. If the deadline has passed, it returns the time and -1, and changes no key.
-- KEYS: the state and the notes of each limit that gateways count, then all keys of other limits. ARGV: the deadline, then for each limit
-- that gateways count the ms until its notes may expire.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The caller has timed out, and has answered that the reset failed.
if now > tonumber(ARGV[1]) then return { now, -1 } end

local counted = #ARGV - 1
for n = 1, counted do
  local state, notes = KEYS[2 * n - 1], KEYS[2 * n]
  redis.call('UNLINK', state)
  -- Reads 1,000 notes at most, which is more than there are gateways.
  local known = redis.call('HRANDFIELD', notes, 1000, 'WITHVALUES')
  for i = 1, #known, 2 do
    redis.call('HSET', notes, known[i], (string.gsub(known[i + 1], '%d$', '0')))
  end
  redis.call('PEXPIRE', notes, ARGV[1 + n], 'LT')
end
for n = 2 * counted + 1, #KEYS do redis.call('UNLINK', KEYS[n]) end
return { now, 1 }
