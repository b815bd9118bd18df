/**
 * A wait queue while a script works on it: its row, its waiters, its outcomes, and its shard's data.
 *
 *     row      string  the wait queue itself, packed
 *     details  hash    p         the holder's progress      v        the result or error of the last turn
 *                      w<who>    a waiter                   o<who>   the outcome for a waiter
 *                      r<no>     a result or error that several outcomes share
 *     results  zset    waiters for the result, by position   turns    zset    waiters for a turn, by position
 *     kept     zset    fields o<who> and r<no>, by the time until which they are kept
 *     due      zset    wait queues, and their waiters, by the time at which they change without a call
 *     busy     zset    wait queues with a holder or waiters, by name
 *     waits    zset    the waiters of all wait queues with their positions, by identity
 *     shard    string  the last token, the recovery grace, the longest recent lease
 *
 * A step gets the row's key. The other keys of a wait queue differ from it by their kind; those of a whole namespace
 * end with the kind. All begin with the same hash tag, so they are in the same slot as the row.
 *
 * Details are read once and written together at the end of the step. Redis itself deletes an expired wait queue without
 * holder and waiters.
 *
 * These scripts are short, and most of their time is Lua's own. So numbers are packed as doubles (whole numbers up to
 * 2^53 are exact; as arguments of a command they would become text each time), missing values are 0 or '', the row is
 * in local variables instead of a table, and tables are created only when needed.
 */

/**
 * The packed form of a wait queue's row: d is a number, s is text. A plain row belongs to a wait queue that has only
 * its row, and therefore no waiter. It is short, because packing and unpacking is much of a step's cost. The first byte
 * distinguishes the two forms.
 */
export const plainTag = 1
export const plainFormat: string = `<B${'d'.repeat(14)}sss`

export const wholeTag = 2
export const wholeRowFormat: string = `<B${'d'.repeat(26)}ssss`

/** The values of the current wait queue: variables of the whole script, so that all its functions share them. */
export const stateText: string = `
local rowKey, kindAt, shardKey, name
local callId

local revision, attempt, grantFrom, results, turns
local hasProgress, hasDetails, lastToken, dueAt, forgetAt, keptUntil, pruneAt
local lastKind, lastAttempt, lastAt, hasLastValue, lastWho
local holder, token, heldAttempt, since, ttlMs, ends, takeUpBy, seq
-- The last call whose answer cannot be had by asking again: its id, and its answer.
local call, callKind, callEveryone, callRevision, callNotified

local wasBusy, wasUsed, isChanged, isSaved, isEveryone, isLapsed, notified
local fields, touched
`

/** Reads a wait queue and its details. */
export const queueText: string = `
local none = {}
local find, sub = string.find, string.sub

-- The other keys: of the wait queue itself, and of all wait queues of its namespace in the shard. Most steps need none
-- of them, and sending a key costs more than building it.
local function own(kind)
  return sub(rowKey, 1, kindAt) .. kind .. sub(rowKey, kindAt + 6)
end

local function common(kind)
  return sub(rowKey, 1, kindAt) .. kind .. sub(rowKey, kindAt + 6, find(rowKey, '\\31', kindAt + 7, true) - 1)
end

local function queueName()
  if not name then name = sub(rowKey, find(rowKey, '\\31', kindAt + 7, true) + 1) end
  return name
end

local function get(field)
  local value = fields and fields[field]
  if value == nil then
    if hasDetails == 0 then return false end
    value = redis.call('HGET', own('details'), field)
    fields = fields or {}
    fields[field] = value
  end
  return value
end

local function put(field, value)
  fields = fields or {}
  touched = touched or {}
  fields[field] = value
  touched[#touched + 1] = field
end

local function openQueue(at)
  local raw = rowOf(at)
  rowKey = KEYS[at]
  kindAt = find(rowKey, ':queue:', 1, true)
  shardKey = sub(rowKey, 1, kindAt) .. 'shard'
  name, fields, touched, notified = nil, nil, nil, none
  isChanged, isSaved, isEveryone, isLapsed = false, false, false, false
  if not raw then
    revision, attempt, grantFrom, results, turns, hasProgress, hasDetails = 0, 0, 0, 0, 0, 0, 0
    lastToken, dueAt, forgetAt, keptUntil, pruneAt, lastKind, lastAttempt, lastAt = 0, 0, 0, 0, 0, 0, 0, 0
    hasLastValue, token, heldAttempt, since, ttlMs, ends, takeUpBy, seq = 0, 0, 0, 0, 0, 0, 0, 0
    callKind, callEveryone, callRevision = 0, 0, 0
    lastWho, holder, call, callNotified, wasBusy, wasUsed = '', '', '', '', false, false
    return
  end
  local _
  if string.byte(raw) == ${plainTag} then
    grantFrom, results, turns, hasProgress, hasDetails, keptUntil, pruneAt = 0, 0, 0, 0, 0, 0, 0
    hasLastValue, takeUpBy, callEveryone, callNotified = 0, 0, 0, ''
    _, revision, lastToken, dueAt, forgetAt, lastKind, lastAttempt, lastAt, callKind, callRevision, attempt, since,
      ttlMs, ends, seq, lastWho, call, holder = struct.unpack('${plainFormat}', raw)
    token, heldAttempt = lastToken, attempt
  else
    _, revision, attempt, grantFrom, results, turns, hasProgress, hasDetails, lastToken, dueAt, forgetAt, keptUntil,
      pruneAt, lastKind, lastAttempt, lastAt, hasLastValue, token, heldAttempt, since, ttlMs, ends, takeUpBy, seq,
    callKind, callEveryone, callRevision, lastWho, holder, call, callNotified = struct.unpack('${wholeRowFormat}', raw)
  end
  wasBusy = holder ~= '' or results + turns > 0
  -- It has expired, and Redis will delete it in a moment.
  if not wasBusy and forgetAt <= now then lastKind = 0 end
  -- There was a holder before the current one.
  wasUsed = lastKind > 0
end

-- A waiter, or an outcome to deliver, leaves details. The holder's token is the last one.
local function packRow()
  if hasDetails == 0 and takeUpBy == 0 and grantFrom == 0 and callNotified == '' then
    return struct.pack('${plainFormat}', ${plainTag}, revision, lastToken, dueAt, forgetAt, lastKind, lastAttempt, lastAt,
      callKind, callRevision, attempt, since, ttlMs, ends, seq, lastWho, call, holder)
  end
  return struct.pack('${wholeRowFormat}', ${wholeTag}, revision, attempt, grantFrom, results, turns, hasProgress, hasDetails, lastToken,
    dueAt, forgetAt, keptUntil, pruneAt, lastKind, lastAttempt, lastAt, hasLastValue, token, heldAttempt, since,
    ttlMs, ends, takeUpBy, seq, callKind, callEveryone, callRevision, lastWho, holder, call, callNotified)
end

local function endOfTurn()
  if takeUpBy == 0 then return ends end
  return math.min(ends, takeUpBy)
end
`

/** A revision must not be used twice in a millisecond, and an answer must stay available for a repeated call. */
const leastKeptMs = 15_000

/** Writes a wait queue at the end of the step. */
export const closingText: string = `
-- Deletes expired outcomes, some at a time. Every change of the wait queue runs it.
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

-- Removes the wait queue from the lists of due and of busy wait queues.
local function unlist()
  redis.call('ZREM', common('due'), queueName())
  redis.call('ZREM', common('busy'), queueName())
  dueAt = 0
end

-- Records when the wait queue changes without a call: at the end of the holder's lease, or of the delay. A wait queue
-- with a holder or waiters has such a time, so both lists are written together. A frequently used wait queue stays on
-- the lists while it is free, and its next holder finds it there. A sweep at the recorded time finds the current state:
-- a later time, or nothing due.
local function saveDue()
  local due = 0
  if holder ~= '' then due = endOfTurn() elseif grantFrom > now then due = grantFrom end
  local shard = shards[shardKey]
  if shard and shard.graceUntil > now and (holder ~= '' or results + turns > 0) and shard.graceUntil > due then
    due = shard.graceUntil
  end
  -- A wait queue that waits only for holders of other operations has no such time: it is checked from time to time.
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

-- Lua accepts a few thousand arguments at most.
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

-- Redis itself deletes, after its time, a wait queue without holder and waiters that no sweep will visit.
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

-- Writes all changes.
local function closeQueue()
  if isChanged then
    if pruneAt > 0 and pruneAt <= now then prune() end
    saveDue()
  end
  if touched then writeDetails() end
  if isChanged or isSaved then writeRow() end
end
`
