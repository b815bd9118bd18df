// The packed form of a waiter: d is a number, s is text.
const waiterFormat = '<ddddddd'
const outcomeFormat = '<ddddss'

/** The waiters of the current wait queue, and the outcomes of ended waits. */
export const waitersText: string = `
local function readWaiter(who)
  if results + turns == 0 then return nil end
  local raw = get('w' .. who)
  if not raw then return nil end
  local waiter = { who = who }
  waiter.seq, waiter.wantsTurn, waiter.ttlMs, waiter.since, waiter.ends, waiter.deadline, waiter.isStreamed =
    struct.unpack('${waiterFormat}', raw)
  return waiter
end

local function dueName(who)
  return queueName() .. '\\31' .. who
end

local function waitName(who, position)
  return who .. '\\30' .. queueName() .. '\\30' .. whole(position)
end

local function saveWaiter(waiter)
  put('w' .. waiter.who, struct.pack('${waiterFormat}', waiter.seq, waiter.wantsTurn, waiter.ttlMs, waiter.since,
    waiter.ends, waiter.deadline, waiter.isStreamed))
  local due = waiter.ends
  if waiter.deadline > 0 and waiter.deadline < due then due = waiter.deadline end
  redis.call('ZADD', common('due'), whole(due), dueName(waiter.who))
end

local function addWaiter(waiter)
  saveWaiter(waiter)
  redis.call('ZADD', common('waits'), '0', waitName(waiter.who, waiter.seq))
  if waiter.wantsTurn == 1 then
    redis.call('ZADD', own('turns'), waiter.seq, waiter.who)
    turns = turns + 1
  else
    redis.call('ZADD', own('results'), waiter.seq, waiter.who)
    results = results + 1
  end
end

local function removeWaiter(waiter)
  put('w' .. waiter.who, false)
  redis.call('ZREM', common('due'), dueName(waiter.who))
  redis.call('ZREM', common('waits'), waitName(waiter.who, waiter.seq))
  if waiter.wantsTurn == 1 then
    redis.call('ZREM', own('turns'), waiter.who)
    turns = turns - 1
  else
    redis.call('ZREM', own('results'), waiter.who)
    results = results - 1
  end
end

local function firstWaiter()
  local first, position
  if results > 0 then
    local head = redis.call('ZRANGE', own('results'), 0, 0, 'WITHSCORES')
    first, position = head[1], tonumber(head[2])
  end
  if turns > 0 then
    local head = redis.call('ZRANGE', own('turns'), 0, 0, 'WITHSCORES')
    if not first or tonumber(head[2]) < position then first = head[1] end
  end
  return first and readWaiter(first)
end

local function positionOf(waiter)
  local set, other, others = own('results'), own('turns'), turns
  if waiter.wantsTurn == 1 then set, other, others = own('turns'), own('results'), results end
  local before = redis.call('ZRANK', set, waiter.who)
  if others > 0 then before = before + redis.call('ZCOUNT', other, '-inf', waiter.seq) end
  return before + 1
end

local function keepField(field, keptTo)
  redis.call('ZADD', own('kept'), whole(keptTo), field)
  keptUntil = math.max(keptUntil, keptTo)
  if pruneAt == 0 or keptTo < pruneAt then pruneAt = keptTo end
end

local function readOutcome(who)
  if keptUntil <= now then return nil end
  local raw = get('o' .. who)
  if not raw then return nil end
  local outcome = { who = who }
  outcome.seq, outcome.isNotified, outcome.keptUntil, outcome.valueNo, outcome.kind, outcome.notifiedTo =
    struct.unpack('${outcomeFormat}', raw)
  if outcome.keptUntil <= now then return nil end
  return outcome
end

local function putOutcome(outcome)
  put('o' .. outcome.who, struct.pack('${outcomeFormat}', outcome.seq, outcome.isNotified, outcome.keptUntil,
    outcome.valueNo, outcome.kind, outcome.notifiedTo))
end

local function removeOutcome(who)
  put('o' .. who, false)
  redis.call('ZREM', own('kept'), 'o' .. who)
end

local function valueField(no)
  return 'r' .. whole(no)
end

local function valueOf(outcome)
  return outcome.valueNo > 0 and get(valueField(outcome.valueNo))
end

-- Ends all waits of one of the two sets. The step promises to notify all of them, so this is the only step whose time
-- grows with their number: some microseconds for each, at most maxWaiters. The outcome is stored once for all of them.
-- The step does not read these fields again, so it writes them at once.
local function dissolveSet(setKey, kind, keptTo, valueNo)
  local members = redis.call('ZRANGE', setKey, 0, -1, 'WITHSCORES')
  local score = whole(keptTo)
  for from = 1, #members, 1000 do
    local outcomes, waits, kept, dues, positions = {}, {}, {}, {}, {}
    for i = from, math.min(from + 998, #members - 1), 2 do
      local who = members[i]
      local field = 'o' .. who
      outcomes[#outcomes + 1] = field
      outcomes[#outcomes + 1] =
        struct.pack('${outcomeFormat}', tonumber(members[i + 1]), 0, keptTo, valueNo, kind, '')
      kept[#kept + 1] = score
      kept[#kept + 1] = field
      waits[#waits + 1] = 'w' .. who
      dues[#dues + 1] = dueName(who)
      positions[#positions + 1] = waitName(who, tonumber(members[i + 1]))
    end
    redis.call('HSET', own('details'), unpack(outcomes))
    redis.call('HDEL', own('details'), unpack(waits))
    redis.call('ZADD', own('kept'), unpack(kept))
    redis.call('ZREM', common('due'), unpack(dues))
    redis.call('ZREM', common('waits'), unpack(positions))
  end
  redis.call('DEL', setKey)
end

local function dissolve(isAll, kind, value)
  local count = results + (isAll and turns or 0)
  if count == 0 then return 0 end
  local keptTo = now + keepMs
  local valueNo = 0
  if value then
    valueNo = revision
    put(valueField(valueNo), value)
    keepField(valueField(valueNo), keptTo)
  end
  keptUntil = math.max(keptUntil, keptTo)
  if pruneAt == 0 then pruneAt = keptTo end
  if results > 0 then dissolveSet(own('results'), kind, keptTo, valueNo) end
  results = 0
  if isAll and turns > 0 then
    dissolveSet(own('turns'), kind, keptTo, valueNo)
    turns = 0
  end
  return count
end
`
