-- Reads the entries that are newer than a version. Returns texts: the time, the generation (0: there are no entries), the highest version,
-- the highest version of a dropped entry, the difference between the numbers of names in the hash and in the set, the highest version in
-- this answer. The name and the text of each entry follow, by rising version: `most` entries, and any further entries with the last
-- version.
-- KEYS: the hash of entries by name, the set of names by version. ARGV: the version after which to read, `most`, the ms for which the keys
-- are kept.

local time = redis.call('TIME')
local function text(number) return string.format('%d', number) end

local head = {}
for number in string.gmatch(redis.call('HGET', KEYS[1], '=') or '', '%d+') do head[#head + 1] = number end
local version = head[2] or '0'
local lacking = math.abs(math.max(redis.call('HLEN', KEYS[1]) - 1, 0) - redis.call('ZCARD', KEYS[2]))
local reply = { text(time[1] * 1000000 + time[2]), head[1] or '0', version, head[3] or '0', text(lacking), version }
if tonumber(version) > tonumber(ARGV[1]) then
  local since = '(' .. ARGV[1]
  local names = redis.call('ZRANGEBYSCORE', KEYS[2], since, '+inf', 'LIMIT', 0, ARGV[2])
  if #names == tonumber(ARGV[2]) then
    reply[6] = text(tonumber(redis.call('ZSCORE', KEYS[2], names[#names])))
    names = redis.call('ZRANGEBYSCORE', KEYS[2], since, reply[6])
  end
  for _, name in ipairs(names) do
    local entry = redis.call('HGET', KEYS[1], name)
    if entry then
      reply[#reply + 1] = name
      reply[#reply + 1] = entry
    end
  end
end
-- Once an hour only, because each gateway calls twice a second.
if time[1] % 3600 < 3 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
return reply
