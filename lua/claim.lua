-- Claims an event for one gateway, so that the gateways on this Redis report the event once. Returns a number: 0: another gateway has the
-- claim, 1: this gateway has the claim, 2: the event was reported.
-- KEYS: the claim. ARGV: the ID of the gateway, or an empty text when the event was reported; the ms for which the claim is kept.

local holder = redis.call('GET', KEYS[1])
if holder == '' then return { 2 } end
if holder and ARGV[1] ~= '' and holder ~= ARGV[1] then return { 0 } end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return { 1 }
