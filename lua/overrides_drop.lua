-- Drops overrides that are over, and what is remembered of cleared ones that is over or, if `early` is 1, not needed any longer. Answers
-- the time, and how many were dropped.
-- KEYS: the hash of records by name, the set of names by version. ARGV: early; then for each its name and version.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whether a content is that of a cleared one.
local function clears(content) return content == '' or string.sub(content, 1, 1) == '-' end

local head = redis.call('HGET', KEYS[1], '=')
local begun, version, count = string.match(head or '', '^(%d+) (%d+) (%d+)$')
if not begun then return { now, 0 } end

local dropped = 0
for i = 2, #ARGV, 2 do
  local record = redis.call('HGET', KEYS[1], ARGV[i])
  local known, ends, content = string.match(record or '', '^(%d+) (%d+) (.*)$')
  local is_over = known and ends ~= '0' and tonumber(ends) <= now
  if known == ARGV[i + 1] and (is_over or ARGV[1] == '1' and clears(content)) then
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[2], ARGV[i])
    dropped = dropped + 1
    if not clears(content) then count = count - 1 end
  end
end
redis.call('HSET', KEYS[1], '=', begun .. ' ' .. version .. ' ' .. string.format('%d', count))
return { now, dropped }
