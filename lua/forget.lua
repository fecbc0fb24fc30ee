-- Forgets what was used under the key of a limit that gateways count by themselves, and lets each of them go on from what
-- its next call tells. Answers the time. KEYS: the state, the notes of exchange.lua. ARGV: for how many ms the notes may
-- matter.

local time = redis.call('TIME')

redis.call('DEL', KEYS[1])
-- So many as there may be gateways, and no more.
local notes = redis.call('HRANDFIELD', KEYS[2], 1000, 'WITHVALUES')
for i = 1, #notes, 2 do
  local note = string.gsub(notes[i + 1], '%d$', '0')
  redis.call('HSET', KEYS[2], notes[i], note)
end
redis.call('PEXPIRE', KEYS[2], ARGV[1], 'LT')
return { time[1] * 1000000 + time[2] }
