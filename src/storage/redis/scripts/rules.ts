/**
 * The rules of a fair wait queue, in Lua. They do the same as the methods of src/locks/rules/open-wait-queue.ts,
 * in another order; steps.ts follows src/locks/rules/rules.ts. A random walk compares the two. The recovery grace
 * (recovery.ts) is added here: during a grace there is no new grant, and no lease expires.
 */
export const rulesText: string = `
local leaseRanOut = '{"code":"lease_lost","message":"The holder’s lease ran out."}'
local evictedByOperator = '{"code":"evicted","message":"An operator ended the holder’s turn."}'
local succeeded, failed = 1, 2

local function tell(who)
  if notified == none then notified = { who } else notified[#notified + 1] = who end
end

-- Records how the current turn ended.
local function recordLast(kind, value)
  lastKind, lastWho, lastAttempt, lastAt = kind, holder, heldAttempt, now
  if value then put('v', value) elseif hasLastValue == 1 then put('v', false) end
  hasLastValue = value and 1 or 0
end

local function conclude(who, position, kind, isNotified, value)
  change()
  local keptTo = now + keepMs
  if value then
    put(valueField(revision), value)
    keepField(valueField(revision), keptTo)
  end
  putOutcome({
    who = who, seq = position, isNotified = isNotified and 1 or 0, keptUntil = keptTo, valueNo = value and revision or 0, kind = kind,
    notifiedTo = isNotified and callId or '',
  })
  keepField('o' .. who, keptTo)
  tell(who)
end

local function lapse()
  conclude(holder, seq, 'lost')
  if takeUpBy > 0 then
    -- The turn never began, so it does not count as an attempt.
    attempt = heldAttempt - 1
  else
    isLapsed = true
    grantFrom = ends + lockDelayMs
    recordLast(failed, leaseRanOut)
  end
  holder = ''
  change()
end

local function goneBy(waiter)
  if waiter.deadline > 0 and waiter.deadline <= now then return 'timeout' end
  if waiter.ends <= now and graceUntil() <= now then return 'lost' end
  return nil
end

local function setHolder(who, number, ms, position, takeUpUntil)
  attempt = attempt + 1
  holder, token, heldAttempt, since, ttlMs, ends = who, number, attempt, now, ms, now + ms
  takeUpBy, seq, lastToken = takeUpUntil, position, number
  if hasProgress == 1 then
    put('p', false)
    hasProgress = 0
  end
  change()
  tell(who)
end

local function grant(who, ms, position, takeUpUntil)
  setHolder(who, mintToken(ms), ms, position, takeUpUntil)
end

`

/** The standing of the caller after the step. */
export const standingText: string = `
local function isHeldBy(who, number)
  return holder == who and token == number
end

local function granted()
  return { 'granted', token, ends, heldAttempt }
end

local function queued(waiter)
  return { 'queued', positionOf(waiter) }
end

local function ended(kind, value)
  return { 'ended', kind, value or false }
end

local function holderView()
  if holder == '' then return false end
  return { holder, heldAttempt, since, ends, hasProgress == 1 and get('p') }
end

local function takeUp()
  if takeUpBy > 0 then
    takeUpBy = 0
    change()
  end
  return granted()
end

-- Renews the wait of a caller, or ends it at its deadline. Returns its state; nil if it does not wait.
local function renewOrEndWait(who, isStreamed)
  local waiter = readWaiter(who)
  if not waiter then return nil end
  if waiter.deadline > 0 and waiter.deadline <= now then
    removeWaiter(waiter)
    conclude(who, waiter.seq, 'timeout', true)
    return ended('timeout')
  end
  -- A waiter whose lease expired unnoticed still has its position: it is here again.
  waiter.ends = now + waiterLeaseMs
  waiter.isStreamed = isStreamed
  saveWaiter(waiter)
  return queued(waiter)
end

-- The request of a caller is in ARGV, after its name: its lease time, and one text that tells whether it waits, whether
-- for a turn, whether it has a stream, and its deadline (empty: none). Few steps need most of it.
local function streamedOf(ask)
  return tonumber(sub(ARGV[ask + 2], 3, 3))
end

local function join(who, position, hasOutcome, ask)
  if results + turns >= maxWaiters then return { 'full', results + turns } end
  if hasOutcome then removeOutcome(who) end
  local terms = ARGV[ask + 2]
  local deadlineMs = tonumber(sub(terms, 4))
  local waiter = {
    who = who, seq = position, wantsTurn = tonumber(sub(terms, 2, 2)), ttlMs = tonumber(ARGV[ask + 1]), since = now,
    ends = now + waiterLeaseMs, deadline = deadlineMs and now + deadlineMs or 0, isStreamed = streamedOf(ask),
  }
  addWaiter(waiter)
  change()
  return queued(waiter)
end

local function answerAcquire(who, ask)
  if holder == who then return takeUp() end

  local kept = renewOrEndWait(who, streamedOf(ask))
  if kept then return kept end

  local outcome = readOutcome(who)
  if outcome and (outcome.isNotified == 0 and outcome.kind ~= 'lost' or isSentAgain and outcome.notifiedTo == callId) then
    outcome.isNotified, outcome.notifiedTo = 1, callId
    putOutcome(outcome)
    return ended(outcome.kind, valueOf(outcome))
  end

  local position = outcome and outcome.seq or nextRevision()
  local isFree = isFreeFor(position)
  if not isFree and sub(ARGV[ask + 2], 1, 1) == '0' then return { 'refused', holderView() or otherHolderView() } end
  if isFree then
    if outcome then removeOutcome(who) end
    grant(who, tonumber(ARGV[ask + 1]), position, 0)
    return granted()
  end
  return join(who, position, outcome ~= nil, ask)
end

local function keepPosition(who, isStreamed)
  if holder == who then return granted() end
  local kept = renewOrEndWait(who, isStreamed)
  if kept then return kept end
  local outcome = readOutcome(who)
  if not outcome then return { 'none' } end
  if outcome.isNotified == 0 then
    outcome.isNotified = 1
    putOutcome(outcome)
  end
  return ended(outcome.kind, valueOf(outcome))
end

local function endTurn(kind, value, isTerminal)
  local isOver = kind == succeeded or isTerminal
  recordLast(kind, value)
  holder = ''
  attempt = isOver and 0 or heldAttempt
  change()
  if isOver and dissolve(kind ~= succeeded, kind == succeeded and 'completed' or 'failed', value) > 0 then
    isEveryone = true
  end
  grantNext()
end

local function expire(who)
  local waiter = readWaiter(who)
  if not waiter then
    redis.call('ZREM', common('due'), dueName(who))
    return false
  end
  local gone = goneBy(waiter)
  if not gone then
    -- The grace has postponed it.
    if waiter.ends <= now then redis.call('ZADD', common('due'), graceUntil(), dueName(who)) end
    return false
  end
  removeWaiter(waiter)
  conclude(who, waiter.seq, gone)
  return true
end

local function leave(who)
  if holder == who then
    if takeUpBy == 0 then return 'holding' end
    holder = ''
    attempt = heldAttempt - 1
    change()
    grantNext()
    return 'left'
  end
  local waiter = readWaiter(who)
  if not waiter then return 'none' end
  removeWaiter(waiter)
  change()
  return 'left'
end

local function evict(who)
  if holder == who then
    conclude(who, seq, 'evicted')
    endTurn(failed, evictedByOperator, false)
    return true
  end
  local waiter = readWaiter(who)
  if not waiter then return false end
  removeWaiter(waiter)
  conclude(who, waiter.seq, 'evicted')
  return true
end

local function fail(who, position, value)
  local waiter = readWaiter(who)
  if not waiter or waiter.seq ~= position then return false end
  removeWaiter(waiter)
  conclude(who, position, 'failed', false, value)
  return true
end

-- progressKind: '' keeps the progress, 'text' sets it, 'none' deletes it.
local function extend(ms, progressKind, progress)
  ends = math.max(ends, now + ms)
  ttlMs, takeUpBy = ms, 0
  if progressKind == 'text' then
    put('p', progress)
    hasProgress = 1
  elseif progressKind == 'none' and hasProgress == 1 then
    put('p', false)
    hasProgress = 0
  end
  change()
  return ends
end

local function shorten(toMs)
  if now + toMs >= ends then return end
  ends = now + toMs
  change()
end

-- A holder whose grant was lost with the writes of an earlier server. Its token is newer than all known tokens, so
-- there was no later grant. It replaces an older holder, and ends its own wait.
local function reassert(who, number, ms)
  if number <= lastToken or number > micros or graceUntil() <= now or not clearWayFor(number) then return false end
  if holder ~= '' then conclude(holder, seq, 'lost') end
  local waiter = readWaiter(who)
  if waiter then removeWaiter(waiter) end
  if readOutcome(who) then removeOutcome(who) end
  setHolder(who, number, ms, nextRevision(), 0)
  local shard = shardInHand()
  if number > shard.token then shard.token = number end
  if number > shard.high then shard.high = number end
  saveShard(shard)
  return true
end
`
