-- Decides several requests of the same moment in one call, each as if it had come alone. The script has decide.lua in front of this file.
-- README.md beside this file describes KEYS, ARGV and the answer.

-- Defers writes: each key is written once, after all decisions.
unwritten = {}

local key, word = 1, 2
for _ = 1, tonumber(ARGV[1]) do
  local times, keys, own = tonumber(ARGV[word]), tonumber(ARGV[word + 1]), tonumber(ARGV[word + 2])
  for n = 1, times do
    -- The index in `reply` of the length of this request's answer. The answer follows the length.
    local place = length + 1
    length = place
    local sound, why = pcall(decide, key, key + keys - 1, ARGV[word + 2 + n], own)
    if sound then
      reply[place] = length - place
    else
      -- The failure affects no other request of the call.
      for at = #reply, place + 1, -1 do reply[at] = nil end
      length = place
      reply[place] = failure(why)
    end
  end
  key, word = key + keys, word + 3 + times
end
for written, period in pairs(unwritten) do write(written, known[written], period) end
return reply
