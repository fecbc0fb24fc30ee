-- Sets and clears overrides, each if it still is what the caller takes it for. Answers texts: the time, and 1, or -1 if the caller knows
-- of a later version than this Redis, which then has lost data: nothing was done. Then for each override in turn
--   its new version; 0 if there was nothing to clear, -1 if it is another by now, -2 if there is no room, -3 if it would be over already
--   until when it holds, in us (0: for ever); of a cleared one, until when that is remembered
--   the record that was in force before, or nothing
-- KEYS: the hash of records by name, the set of names by version. ARGV: the highest version that the caller knows, how many overrides
-- there may be, for how many us a cleared one is remembered, for how many ms the keys are kept; then for each override its name, the
-- version that it must have (0: there is none; *: whatever it has), until when it holds (+us: from now; 0: for ever), its content (what
-- begins with -, or nothing: clear it).

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local most, remembered = tonumber(ARGV[2]), tonumber(ARGV[3])

local function text(number) return string.format('%d', number) end

-- Whether a content is that of a cleared one.
local function clears(content) return content == '' or string.sub(content, 1, 1) == '-' end

local head = redis.call('HGET', KEYS[1], '=')
local begun, version, count = string.match(head or '', '^(%d+) (%d+) (%d+)$')
version, count = tonumber(version or 0), tonumber(count or 0)
if version < tonumber(ARGV[1]) then return { text(now), '-1' } end

local reply = { text(now), '1' }
local function answer(number, ends, before)
  reply[#reply + 1] = text(number)
  reply[#reply + 1] = text(ends)
  reply[#reply + 1] = before
end

local changed = false
for i = 5, #ARGV, 4 do
  local name, expected, ends, content = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if string.sub(ends, 1, 1) == '+' then ends = now + tonumber(string.sub(ends, 2)) else ends = tonumber(ends) end
  if clears(content) then ends = now + remembered end
  local record = redis.call('HGET', KEYS[1], name)
  local old, old_ends, old_content = string.match(record or '', '^(%d+) (%d+) (.*)$')
  local is_counted = old ~= nil and not clears(old_content)
  local is_in_force = is_counted and (old_ends == '0' or tonumber(old_ends) > now)
  local before = is_in_force and record or ''
  if expected ~= '*' and expected ~= (is_in_force and old or '0') then
    answer(-1, 0, before)
  elseif clears(content) and not is_in_force then
    answer(0, 0, '')
  elseif not clears(content) and not is_counted and count >= most then
    answer(-2, 0, '')
  elseif ends ~= 0 and ends <= now then
    answer(-3, 0, before)
  else
    -- A version is also a time: so those of a Redis that lost its data and begins anew are later than all before.
    version = math.max(version + 1, now)
    begun = begun or text(version)
    count = count + (clears(content) and 0 or 1) - (is_counted and 1 or 0)
    redis.call('HSET', KEYS[1], name, text(version) .. ' ' .. text(ends) .. ' ' .. content)
    redis.call('ZADD', KEYS[2], text(version), name)
    changed = true
    answer(version, ends, before)
  end
end
if changed then
  redis.call('HSET', KEYS[1], '=', begun .. ' ' .. text(version) .. ' ' .. text(count))
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
return reply
