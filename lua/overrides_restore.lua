-- Brings back what a gateway knows of overrides, to a Redis that has lost data: of each the highest version wins, also of one that was
-- cleared. Answers the time, and how many were brought back.
-- KEYS: the hash of records by name, the set of names by version. ARGV: how many overrides there may be, for how many ms the keys are
-- kept, the highest version that the gateway knows; then for each override its name and its record.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local most = tonumber(ARGV[1])

local function text(number) return string.format('%d', number) end

-- Whether a content is that of a cleared one.
local function clears(content) return content == '' or string.sub(content, 1, 1) == '-' end

local head = redis.call('HGET', KEYS[1], '=')
local begun, version, count = string.match(head or '', '^(%d+) (%d+) (%d+)$')
version, count = math.max(tonumber(version or 0), tonumber(ARGV[3])), tonumber(count or 0)
begun = begun or text(now)

local restored = 0
for i = 4, #ARGV, 2 do
  local name, record = ARGV[i], ARGV[i + 1]
  local new, ends, content = string.match(record, '^(%d+) (%d+) (.*)$')
  local stored = redis.call('HGET', KEYS[1], name)
  local old, _, old_content = string.match(stored or '', '^(%d+) (%d+) (.*)$')
  local is_counted = old ~= nil and not clears(old_content)
  local adds = (clears(content) and 0 or 1) - (is_counted and 1 or 0)
  local is_over = ends ~= '0' and tonumber(ends) <= now
  local is_older = tonumber(old or -1) > tonumber(new)
  if not is_over and not is_older and count + adds <= math.max(most, count) then
    local lacked = old ~= new
    if lacked then
      redis.call('HSET', KEYS[1], name, record)
      count = count + adds
    end
    -- Its name may have been lost alone.
    if redis.call('ZADD', KEYS[2], new, name) == 1 then lacked = true end
    if lacked then restored = restored + 1 end
    version = math.max(version, tonumber(new))
  end
end
-- By another beginning all gateways see that there are records of versions which they have passed.
if restored > 0 then begun = text(math.max(now, tonumber(begun) + 1)) end
redis.call('HSET', KEYS[1], '=', begun .. ' ' .. text(version) .. ' ' .. text(count))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return { now, restored }
