-- Reads the stored counts of a limit for an operator. Charges no unit, and writes no key. Returns the text of the state, which is empty
-- without a state, and the held units as text. KEYS: the state of the limit, and its holds.

-- Only states of buckets and windows are strings, of 140 bytes at most (record.lua). For another type, GETRANGE returns an error.
local state = redis.pcall('GETRANGE', KEYS[1], '0', '140')
local held = redis.call('ZSCORE', KEYS[2], 'held')
return { type(state) == 'string' and state or '', held and string.format('%d', -tonumber(held)) or '0' }
