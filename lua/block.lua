-- block: refuses a key for a while once its limit was exceeded. Computes the same as crates/core/src/block.rs. A record of the time at
-- which the block ends, under a key of its own. `span`: its length in us, below 0 if refused requests prolong it.

local block = {}

local function tell(left, verdict)
  verdict.remaining = 0
  verdict.reset = math.max(verdict.reset, left)
  verdict.retry_after = math.max(verdict.retry_after, left)
end

-- Applies a block to the verdict, and returns its end (0: no block). A block longer than its span is cut: the clock stepped back.
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

-- Starts a block, or prolongs it, after a check that refused.
function block.start(key, now, span, blocked, verdict)
  if blocked > now and span > 0 then return end
  span = math.abs(span)
  record(key, span, now + span)
  tell(span, verdict)
end
