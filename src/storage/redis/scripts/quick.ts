import { dayMs, shardFormat, tokenBlock } from './shard.ts'
import { plainFormat, plainTag } from './wait-queue.ts'

/**
 * The short path for the most frequent steps: acquire, and release with success and without a result, on a recently
 * used wait queue with no waiter and only its row. It has the same effect as the rules (rules.ts, and `closingText` in
 * wait-queue.ts) where these have nothing to decide. It leaves every other step to them. The rules are defined only when
 * a call needs them, because that takes as long as several of these steps.
 *
 * In a script, a command costs more than its effect. So one command reads the rows of all steps, and one the shards of
 * successive steps.
 */
export const quickText: string = `
local unpackRow, packRow, byte = struct.unpack, struct.pack, string.byte

-- By key: the current row; false if there is none; nil if it must be read again.
local rows = {}
for no, row in ipairs(redis.call('MGET', unpack(KEYS))) do rows[KEYS[no]] = row end
-- The shards of all steps from this one on.
local shardRows, shardsFrom

local function rowOf(no)
  local row = rows[KEYS[no]]
  if row == nil then return redis.call('GET', KEYS[no]) end
  return row
end

local function write(no, row)
  redis.call('SET', KEYS[no], row)
  rows[KEYS[no]] = row
end

local function shardKeyOf(key)
  return string.sub(key, 1, string.find(key, ':queue:', 1, true)) .. 'shard'
end

-- Reads the shards of this and all later keys together.
local function shardOf(no)
  if not shardRows then
    local keys = {}
    for i = no, #KEYS do keys[i - no + 1] = shardKeyOf(KEYS[i]) end
    shardRows, shardsFrom = redis.call('MGET', unpack(keys)), no
  end
  return shardRows[no - shardsFrom + 1]
end

local function later(revision)
  local least = now * 1000
  return revision < least and least or revision + 1
end

local function acquireQuickly(_, keyNo, raw, at)
  local who, ms = ARGV[at], tonumber(ARGV[at + 1])
  local _, revision, lastToken, dueAt, forgetAt, lastKind, lastAttempt, lastAt, callKind, callRevision, attempt,
    _, _, _, _, lastWho, call, holder = unpackRow('${plainFormat}', raw)
  if holder ~= '' or attempt > 0 or forgetAt <= now then return false end
  local ends = now + ms
  -- It would have to be listed again.
  if dueAt <= now or ends < dueAt then return false end
  local shard = shardOf(keyNo)
  if not shard then return false end
  local shardToken, high, graceUntil, _, ttl, _, ttlFrom = unpackRow('${shardFormat}', shard)
  local token = micros + mintCount
  -- The shard would have to record something, or it gives no grants now.
  if graceUntil > now or ms > ttl or now - ttlFrom >= ${dayMs} then return false end
  if token <= lastToken or token <= shardToken or token > high or token < high - ${tokenBlock} then return false end
  mintCount = mintCount + 1
  revision = later(revision)
  write(keyNo, packRow('${plainFormat}', ${plainTag}, revision, token, dueAt, forgetAt, lastKind, lastAttempt,
    lastAt, callKind, callRevision, 1, now, ms, ends, revision, lastWho, call, who))
  replies[size + 1], replies[size + 2], replies[size + 3], replies[size + 4] = 0, revision, token, ends
  size = size + 4
  return true
end

local function releaseQuickly(no, keyNo, raw, at)
  if ARGV[at + 2] ~= 's00' then return false end
  local _, revision, token, dueAt, _, lastKind, _, _, _, _, attempt, _, _, ends, _, _, _, holder =
    unpackRow('${plainFormat}', raw)
  if holder ~= ARGV[at] or token ~= tonumber(ARGV[at + 1]) or ends <= now then return false end
  -- It would have to be removed from the lists.
  if lastKind == 0 or dueAt <= now or dueAt > now + keepMs then return false end
  revision = later(revision)
  write(keyNo, packRow('${plainFormat}', ${plainTag}, revision, token, dueAt, now + keepMs, 1, attempt,
    now, 1, revision, 0, 0, 0, 0, 0, holder, callIdOf(no), ''))
  replies[size + 1], replies[size + 2] = -1, revision
  size = size + 2
  return true
end

local quickly = { acquire = acquireQuickly, release = releaseQuickly }

-- Whether the step took this path, even if it was refused.
local function takeQuickly(step, no, keyNo, at)
  local take, raw = quickly[step], rowOf(keyNo)
  if not take or not raw or byte(raw) ~= ${plainTag} or isSentAgain then return false end
  local isDone, isTaken = pcall(take, no, keyNo, raw, at)
  if not isDone then replyProblem(isTaken) end
  return not isDone or isTaken
end
`
