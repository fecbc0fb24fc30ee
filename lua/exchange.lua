-- Exchanges counts in mode `synced`: adds the new counts of one gateway to the state, and returns the counts of all gateways. A hash beside
-- the state has a note for each gateway: the counts that were added for it. README.md describes KEYS, ARGV and the answer.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The gateway has timed out, and sends the counts again.
if now > tonumber(ARGV[1]) then return { now, -1 } end

local gateway, call = ARGV[2], tonumber(ARGV[3])

-- Returns the fields of a note, or nil for other content. `heard`: 0 if the gateway has not called since the last reset.
local function read(note)
  local number, start, current, previous, heard = string.match(note, '^(%d+) (%d+) (%d+) (%d+) ([01])$')
  return number and {
    call = tonumber(number),
    start = tonumber(start),
    current = tonumber(current),
    previous = tonumber(previous),
    heard = heard == '1',
  }
end

-- Returns the counts of the window that starts at `start` and of the one before it; nil where `counts` has none.
local function counts_of(counts, start, window)
  if counts.start == start then return counts.current, counts.previous end
  if counts.start + window == start then return nil, counts.current end
  if counts.start == start + window then return counts.previous, nil end
  return nil, nil
end

-- Returns the units to add to `count`, so that it stays between 0 and 2^53 - 1. The result is below 0 if the gateway has lowered its own
-- count. A reset may have dropped the units to remove, so the count does not fall below 0.
local function units_to_add(count, own, noted)
  return math.max(-count, math.min(9007199254740991 - count, own - noted))
end

-- The most notes that one call reads: more than there are gateways.
local MOST_NOTES = 1000

-- Drops the notes of gateways without counts in the current window or the one before.
local function drop_old_notes(notes_key, start, window)
  local notes = redis.call('HRANDFIELD', notes_key, MOST_NOTES, 'WITHVALUES')
  for i = 1, #notes, 2 do
    local note = read(notes[i + 1])
    if not note or note.start + window < start then redis.call('HDEL', notes_key, notes[i]) end
  end
end

-- Exchanges the counts of one limit: adds the difference between `own`, the gateway's counts, and its last note. A fixed window has no
-- `previous`. Returns the start of the window, the counts of all gateways, and the counts of this gateway.
local function exchange(key, notes_key, algorithm, quota, own)
  local window, verdict = quota[2], algorithm.check(key, now, 1, quota)
  local start, current, previous = verdict.start, verdict.count or verdict.current, verdict.previous
  local note = redis.call('HGET', notes_key, gateway)
  local noted = note and read(note) or { call = 0, start = 0, current = 0, previous = 0, heard = true }
  -- The clock stepped back by more than a window: the noted counts move to the current window, as the state's counts did.
  if noted.start > now + window then noted.start = start end
  local noted_current, noted_previous = counts_of(noted, start, window)
  noted_current, noted_previous = noted_current or 0, noted_previous or 0

  -- A call that a later call has overtaken has no effect. If the note is ahead of the state, no counts are added until the window of the
  -- note begins.
  if call > noted.call and noted.start <= start then
    local own_current, own_previous = counts_of(own, start, window)
    own_current = own_current or noted_current
    own_previous = previous and own_previous or noted_previous
    -- A reset since the last call drops all counts until now, also counts that the gateway had not sent yet.
    if not noted.heard then noted_current, noted_previous = own_current, own_previous end
    local more = units_to_add(current, own_current, noted_current)
    local more_before = units_to_add(previous or 0, own_previous, noted_previous)
    current = current + more
    if previous then
      previous = previous + more_before
      verdict.previous = previous
    end
    if more ~= 0 or more_before ~= 0 then algorithm.commit(key, now, more, quota, verdict) end
    noted_current, noted_previous = own_current, own_previous
    if note or noted_current > 0 or noted_previous > 0 then
      if noted.start < start then drop_old_notes(notes_key, start, window) end
      local text = string.format('%d %d %d %d 1', call, start, noted_current, noted_previous)
      redis.call('HSET', notes_key, gateway, text)
      -- Notes live a second longer than the state, because a note must not expire before the counts that it describes. Redis may pause
      -- between its answer to TIME and the write of the state, and the state then lives longer by this pause.
      local windows = previous and 2 or 1
      redis.call('PEXPIRE', notes_key, math.ceil((start + windows * window - now) / 1000) + 1000)
    end
  end
  -- `bound` has no effect on keys that were written above, because they have a shorter time to live.
  bound(key, verdict.reset)
  bound(notes_key, 2 * window)
  return start, current, previous or 0, noted_current, noted_previous
end

local reply, position = { now, 1 }, 4
for i = 1, #KEYS, 2 do
  local algorithm, quota = algorithms[ARGV[position]], {}
  local own = {
    start = tonumber(ARGV[position + 1]),
    current = tonumber(ARGV[position + 2]),
    previous = tonumber(ARGV[position + 3]),
  }
  for n = 1, algorithm.numbers do quota[n] = tonumber(ARGV[position + 3 + n]) end
  position = position + 4 + algorithm.numbers
  -- Whether `exchange` succeeded, then start, current, previous, own current, own previous.
  local row = { pcall(exchange, KEYS[i], KEYS[i + 1], algorithm, quota, own) }
  -- The failure affects no other limit of the call. The failed limit has -1 or -2 in place of `start`.
  if not row[1] then row = { false, failure(row[2]), 0, 0, 0, 0 } end
  for n = 2, 6 do reply[#reply + 1] = row[n] end
end
return reply
