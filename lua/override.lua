-- Writes overrides, each if its condition holds, and restores entries that this Redis lacks. Each call drops some entries that ended long
-- ago. Returns texts: the time, and the number of restored entries, or -1 after the deadline, when no entry is written. For each change
-- three texts follow:
--   its version, or 0: no override to clear is in force, -1: another version is in force, -2: too many overrides, -3: its end is past
--   the time at which the override ends, in us (0: never)
--   the entry that was in force before, or an empty text
-- KEYS: the hash of entries by name, the set of names by version. ARGV: the deadline, the highest version that the caller has seen, the
-- number of overrides that may be added according to the entries that the caller has seen, the largest number of entries, the time in us
-- for which an ended entry is kept, the time in ms for which the keys are kept. Four arguments follow for each entry: its name, the version
-- that must be in force (0: none; *: any), its end in us (with a + in front: from now; 0: never), its content. A content that is empty or
-- begins with - clears the override. To restore an entry, the four arguments are its name, the literal `=`, the stored entry and an empty
-- text.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local deadline, known, room, most_entries, kept = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function text(number) return string.format('%d', number) end
local function clears(content) return content == '' or string.sub(content, 1, 1) == '-' end
local function read(entry)
  local version, ends, content = string.match(entry or '', '^(%d+) (%d+) (.*)$')
  return version, tonumber(ends), content
end

-- Compares by bytes, as gateways do. The operators of Lua compare by the server's locale.
local function is_greater(one, other)
  for i = 1, #one do
    local byte, its = string.byte(one, i), string.byte(other, i) or -1
    if byte ~= its then return byte > its end
  end
  return false
end

if now > deadline then return { text(now), '-1' } end

local head = {}
for number in string.gmatch(redis.call('HGET', KEYS[1], '=') or '', '%d+') do head[#head + 1] = tonumber(number) end
local generation, version, floor, cursor = head[1] or now, head[2] or 0, head[3] or 0, head[4] or 0
version = math.max(version, known)
-- Entries that the caller has not seen may have taken a part of the room.
room = room - redis.call('ZCOUNT', KEYS[2], '(' .. text(known), '+inf')

local looked = 20 + (#ARGV - 6) / 2
local next = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. text(cursor), '+inf', 'WITHSCORES', 'LIMIT', 0, looked)
if redis.call('ZCARD', KEYS[2]) > most_entries then kept = 0 end
for i = 1, #next, 2 do
  cursor = tonumber(next[i + 1])
  local number, ends = read(redis.call('HGET', KEYS[1], next[i]))
  if number and ends ~= 0 and ends <= now - kept then
    redis.call('HDEL', KEYS[1], next[i])
    redis.call('ZREM', KEYS[2], next[i])
    floor = math.max(floor, math.min(cursor, version))
  end
end
if #next < 2 * looked then cursor = 0 end

local reply, taken = { text(now), '0' }, 0
local function answer(number, ends, before)
  reply[#reply + 1] = text(number)
  reply[#reply + 1] = text(ends)
  reply[#reply + 1] = before
end
for i = 7, #ARGV, 4 do
  local name, expected, ends, content = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local stored = redis.call('HGET', KEYS[1], name)
  local old, old_ends, old_content = read(stored)
  local function write(number, entry)
    redis.call('HSET', KEYS[1], name, entry)
    redis.call('ZADD', KEYS[2], text(number), name)
    version = math.max(version, number)
  end
  if expected == '=' then
    local entry = ends
    local new = tonumber((read(entry)))
    old = tonumber(old or -1)
    if new > old or new == old and is_greater(entry, stored) then
      write(new, entry)
      taken = taken + 1
    elseif redis.call('ZADD', KEYS[2], text(old), name) == 1 then
      -- Only the name was missing, in the set.
      taken = taken + 1
    end
  else
    local is_in_force = old ~= nil and not clears(old_content) and (old_ends == 0 or old_ends > now)
    local before = is_in_force and stored or ''
    ends = string.sub(ends, 1, 1) == '+' and now + tonumber(ends) or tonumber(ends)
    if expected ~= '*' and expected ~= (is_in_force and old or '0') then
      answer(-1, 0, before)
    elseif clears(content) and not is_in_force then
      answer(0, 0, '')
    elseif not clears(content) and not is_in_force and room <= 0 then
      answer(-2, 0, '')
    elseif not clears(content) and ends ~= 0 and ends <= now then
      answer(-3, 0, before)
    else
      -- The version is the time of the change, or a later one: it is above all versions that this Redis has or the caller has seen, even if
      -- this Redis has lost data.
      local number = math.max(version + 1, now)
      if clears(content) then ends = now end
      room = room + (is_in_force and 1 or 0) - (clears(content) and 0 or 1)
      write(number, text(number) .. ' ' .. text(ends) .. ' ' .. content)
      answer(number, ends, before)
    end
  end
end
-- A new generation makes gateways compare all entries: they may have read past the versions of the restored entries.
reply[2] = text(taken)
if taken > 0 then generation = math.max(generation + 1, now) end
redis.call('HSET', KEYS[1], '=', table.concat({ text(generation), text(version), text(floor), text(cursor) }, ' '))
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('PEXPIRE', KEYS[2], ARGV[6])
return reply
