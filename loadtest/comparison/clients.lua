-- For wrk: requests of so many clients, one after the other and each so often (or without end), as a believed proxy names them.
local clients, times, sent
local UNDER_WAY = 200

function init(words)
  clients, times, sent = tonumber(words[1]), tonumber(words[2] or math.huge), 0
end

function request()
  local client = sent % clients
  sent = sent + 1
  -- wrk would go on to the end of its time. Those that are still under way are of clients that have come before.
  if sent > clients * times + UNDER_WAY then os.exit(0) end
  local address = string.format("10.%d.%d.%d", math.floor(client / 65536) % 256, math.floor(client / 256) % 256, client % 256)
  return wrk.format("GET", nil, { ["X-Forwarded-For"] = address })
end
