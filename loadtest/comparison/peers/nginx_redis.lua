-- A limiter for nginx's Lua as such limiters are commonly written: EVALSHA on a pooled connection, headers, 429.
local limiter = {}
local script, port, capacity, rate, digest

function limiter.configure(file, redis_port, the_capacity, the_rate)
  local opened = assert(io.open(file))
  script = opened:read("*a")
  opened:close()
  port, capacity, rate = redis_port, the_capacity, the_rate
end

local function answer(socket)
  local line, trouble = socket:receive()
  if not line then return nil, trouble end
  local kind, rest = line:byte(), line:sub(2)
  if kind == 43 then return rest end             -- +
  if kind == 58 then return tonumber(rest) end   -- :
  if kind == 36 then                             -- $
    local text = socket:receive(tonumber(rest))
    socket:receive(2)
    return text
  end
  if kind == 42 then                             -- *
    local row = {}
    for place = 1, tonumber(rest) do row[place] = answer(socket) end
    return row
  end
  return nil, rest
end

local function ask(socket, words)
  local parts = { "*" .. #words .. "\r\n" }
  for _, word in ipairs(words) do
    parts[#parts + 1] = "$" .. #word .. "\r\n" .. word .. "\r\n"
  end
  socket:send(parts)
  return answer(socket)
end

function limiter.limit(client)
  local socket = ngx.socket.tcp()
  socket:settimeout(1000)
  if not socket:connect("127.0.0.1", port) then return ngx.exit(503) end
  digest = digest or ask(socket, { "SCRIPT", "LOAD", script })
  local decided = ask(socket, { "EVALSHA", digest, "1", "bucket:" .. client, tostring(capacity), tostring(rate) })
  socket:setkeepalive(60000, 256)
  if not decided then return ngx.exit(503) end
  ngx.header["X-RateLimit-Limit"] = capacity
  ngx.header["X-RateLimit-Remaining"] = decided[2]
  if decided[1] == 0 then
    ngx.header["Retry-After"] = decided[3]
    return ngx.exit(429)
  end
end

return limiter
