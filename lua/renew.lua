-- Holds the places of a running request for another lease; takes them again if they are missing, since the request is running.
-- README.md beside it has the calling contract.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The gateway does not wait for it any more, and may have given back since what this would take again.
local deadline, id = string.match(ARGV[1], '^(%d+) (%x+)$')
if now > tonumber(deadline) then return { now, -1 } end

local units, taken_for, lease = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
places.hold(KEYS[1], now, id, units, taken_for, now + lease)
return { now, 1 }
