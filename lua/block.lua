-- block: once a limit is exceeded, its key is refused for a while. The other writing of crates/core/src/block.rs.
-- A record of the time until which it lasts, under a key of its own. `span` is below 0 if refused requests prolong it.

local block = {}

local function tell(left, verdict)
  verdict.remaining = 0
  verdict.reset = math.max(verdict.reset, left)
  verdict.retry_after = math.max(verdict.retry_after, left)
end

-- Until when it lasts; 0 if there is none. One that lasts for longer than its span is cut: the clock stepped back.
function block.check(key, now, span, verdict)
  local blocked, most = recall(key, '^(%d+)$'), now + math.abs(span)
  if not blocked then return 0 end
  if blocked > most then
    blocked = most
    record(key, most - now, blocked)
  end
  local left = blocked - now
  bound(key, math.max(0, left))
  if left > 0 then
    verdict.allowed = false
    verdict.settling = false
    verdict.delay = 0
    tell(left, verdict)
  end
  return blocked
end

-- Starts it, or prolongs it, after a check that refused.
function block.start(key, now, span, blocked, verdict)
  if blocked > now and span > 0 then return end
  span = math.abs(span)
  record(key, span, now + span)
  tell(span, verdict)
end
