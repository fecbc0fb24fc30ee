-- block: refuses all requests of a key for some time after the key has exceeded its limit. Computes the same as crates/core/src/block.rs. A
-- Redis key of its own has the time at which the block ends. `span`: the length of a block in us, below 0 if refused requests prolong the
-- block.

local block = {}

local function tell(left, verdict)
  verdict.remaining = 0
  verdict.reset = math.max(verdict.reset, left)
  verdict.retry_after = math.max(verdict.retry_after, left)
end

-- Applies a block to the verdict, and returns the time at which the block ends (0: no block). If the clock stepped back, the block may have
-- more time left than its span, and is cut to the span.
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

-- Starts a block, or prolongs it, after a check that refused the request.
function block.start(key, now, span, blocked, verdict)
  if blocked > now and span > 0 then return end
  span = math.abs(span)
  record(key, span, now + span)
  tell(span, verdict)
end
