-- For wrk: requests of several clients in turn, each a number of times (or without end), as a trusted proxy forwards them.
local clients, times, sent
local UNDER_WAY = 200

function init(words)
  clients, times, sent = tonumber(words[1]), tonumber(words[2] or math.huge), 0
end

function request()
  local client = sent % clients
  sent = sent + 1
  -- wrk would go on to the end of its time. Requests that are still in flight come from earlier clients.
  if sent > clients * times + UNDER_WAY then os.exit(0) end
  local address = string.format("10.%d.%d.%d", math.floor(client / 65536) % 256, math.floor(client / 256) % 256, client % 256)
  return wrk.format("GET", nil, { ["X-Forwarded-For"] = address })
end
