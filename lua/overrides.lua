-- Tells a gateway which overrides have changed. Answers texts: the time, when the hash was begun (0: there is none), the highest
-- version, how many records stand in one of the keys and not in the other, and up to which version this answer tells; then the name and the record of each that
-- changed after `since`, the earliest change first, `most` of them at most.
-- KEYS: the hash of records by name, the set of names by version. ARGV: since, most, for how many ms the keys are kept from now (0: as
-- long as before).

local time = redis.call('TIME')

local function text(number) return string.format('%d', number) end

local head = redis.call('HGET', KEYS[1], '=')
local begun, version = string.match(head or '', '^(%d+) (%d+) %d+$')
if not begun then begun, version = '0', '0' end
local records = math.max(redis.call('HLEN', KEYS[1]) - 1, 0)
local lacking = math.abs(records - redis.call('ZCARD', KEYS[2]))
local reply = { text(time[1] * 1000000 + time[2]), begun, version, text(lacking), version }
if tonumber(version) > tonumber(ARGV[1]) then
  local most = tonumber(ARGV[2])
  local names = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #names, 2 do
    local record = redis.call('HGET', KEYS[1], names[i])
    if record then
      reply[#reply + 1] = names[i]
      reply[#reply + 1] = record
    end
  end
  if #names == 2 * most then reply[5] = text(tonumber(names[#names])) end
end
if begun ~= '0' and ARGV[3] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
return reply
