/** A revision must not be used twice in a millisecond, nor an answer be forgotten that may be asked for again. */
const leastKeptMs = 15_000

/** Writing a wait queue, once the step is done. */
export const closingText: string = `
-- Forgets outcomes whose time is over, some at a time: whatever changes the wait queue comes by here.
local function prune()
  local over = redis.call('ZRANGEBYSCORE', own('kept'), '-inf', now, 'LIMIT', 0, 200)
  for _, field in ipairs(over) do put(field, false) end
  if #over > 0 then redis.call('ZREM', own('kept'), unpack(over)) end
  local first = redis.call('ZRANGE', own('kept'), 0, 0, 'WITHSCORES')
  if first[1] then
    pruneAt = tonumber(first[2])
  else
    pruneAt, keptUntil = 0, 0
  end
end

-- Takes the wait queue off the lists of what falls due and of what is busy.
local function unlist()
  redis.call('ZREM', common('due'), queueName())
  redis.call('ZREM', common('busy'), queueName())
  dueAt = 0
end

-- Records when the wait queue changes by itself: at the end of the holder's lease, or of the delay. A wait queue with a
-- holder or waiters has such a time, so both lists are written together.
--
-- A frequently used wait queue stays on them while it is free, and its next holder finds it there. A sweep that
-- comes by at the time noted finds what is the case then: a later time, or nothing any more.
local function saveDue()
  local due = 0
  if holder ~= '' then due = endOfTurn() elseif grantFrom > now then due = grantFrom end
  local shard = shards[shardKey]
  if shard and shard.graceUntil > now and (holder ~= '' or results + turns > 0) and shard.graceUntil > due then
    due = shard.graceUntil
  end
  -- One that waits for another than its own holder has no time at which it changes: it is looked at now and then.
  if due == 0 and results + turns > 0 then due = dueAt > now and dueAt or now + 60000 end
  if due == dueAt then return end
  if due == 0 then
    if not wasUsed or dueAt <= now or dueAt > now + keepMs then unlist() end
    return
  end
  if not wasBusy and dueAt > now and due > dueAt then return end
  redis.call('ZADD', common('due'), whole(due), queueName())
  if dueAt == 0 then redis.call('ZADD', common('busy'), '0', queueName()) end
  dueAt = due
end

-- Lua takes a few thousand arguments at most.
local function callInParts(command, key, list)
  for from = 1, #list, 1000 do
    redis.call(command, key, unpack(list, from, math.min(from + 999, #list)))
  end
end

local function writeDetails()
  local puts, drops, isWritten = {}, {}, {}
  for i = 1, #touched do
    local field = touched[i]
    if not isWritten[field] then
      isWritten[field] = true
      local value = fields[field]
      if value then
        puts[#puts + 1] = field
        puts[#puts + 1] = value
      else
        drops[#drops + 1] = field
      end
    end
  end
  callInParts('HSET', own('details'), puts)
  if hasDetails == 1 then callInParts('HDEL', own('details'), drops) end
  if #puts > 0 then hasDetails = 1 end
end

-- Redis itself removes, after its time, a wait queue without holder and waiters that no sweep will visit.
local function writeRow()
  if holder ~= '' or results + turns > 0 then
    redis.call('SET', rowKey, packRow())
    if not wasBusy and hasDetails == 1 then
      redis.call('PERSIST', own('details'))
      redis.call('PERSIST', own('kept'))
    end
    return
  end
  forgetAt = now
  if lastKind > 0 and lastAt + keepMs > forgetAt then forgetAt = lastAt + keepMs end
  if grantFrom > forgetAt then forgetAt = grantFrom end
  if keptUntil > forgetAt then forgetAt = keptUntil end
  if dueAt > 0 then
    redis.call('SET', rowKey, packRow())
    return
  end
  local removeAt = now + ${leastKeptMs}
  if forgetAt > removeAt then removeAt = forgetAt end
  redis.call('SET', rowKey, packRow(), 'PXAT', whole(removeAt))
  if hasDetails == 1 then
    redis.call('PEXPIREAT', own('details'), whole(removeAt))
    redis.call('PEXPIREAT', own('kept'), whole(removeAt))
  end
end

-- Writes what has changed.
local function closeQueue()
  if isChanged then
    if pruneAt > 0 and pruneAt <= now then prune() end
    saveDue()
  end
  if touched then writeDetails() end
  if isChanged or isSaved then writeRow() end
end
`
