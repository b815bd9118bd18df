import { plainFormat, plainTag } from './row.ts'
import { dayMs, shardFormat, tokenBlock } from './shard.ts'

/**
 * The short way for what is asked for most: a line that was used lately, that nobody holds or waits for and of which
 * nothing is kept beside its row, is taken, and given back with a success and no result. It does what the rules would do
 * (rules.ts and closing.ts) where each of them has nothing to decide; wherever one has, the step is left to them. The
 * rules are defined only when a call needs them, which takes as long as several of these steps.
 */
export const quickText: string = `
local unpackRow, packRow, byte = struct.unpack, struct.pack, string.byte

local function later(revision)
  local least = now * 1000
  return revision < least and least or revision + 1
end

local function acquireQuickly(no, at, raw)
  local _, revision, lastToken, dueAt, forgetAt, lastKind, lastAttempt, lastAt, callKind, callRevision, attempt,
    _, _, _, _, lastWho, call, holder = unpackRow('${plainFormat}', raw)
  if holder ~= '' or attempt > 0 or forgetAt <= now then return false end
  local who, ms = ARGV[at + 1], tonumber(ARGV[at + 2])
  local ends = now + ms
  -- It would have to be listed anew.
  if dueAt <= now or ends < dueAt then return false end
  local key = KEYS[no]
  local shard = redis.call('GET', string.sub(key, 1, string.find(key, ':line:', 1, true)) .. 'shard')
  if not shard then return false end
  local shardToken, high, graceUntil, _, ttl, _, ttlFrom = unpackRow('${shardFormat}', shard)
  local token = micros + mintCount
  -- Something would have to be noted in the shard, or it gives no grants now.
  if graceUntil > now or ms > ttl or now - ttlFrom >= ${dayMs} then return false end
  if token <= lastToken or token <= shardToken or token > high or token < high - ${tokenBlock} then return false end
  mintCount = mintCount + 1
  revision = later(revision)
  redis.call('SET', key, packRow('${plainFormat}', ${plainTag}, revision, token, dueAt, forgetAt, lastKind, lastAttempt,
    lastAt, callKind, callRevision, 1, now, ms, ends, revision, lastWho, call, who))
  replies[size + 1], replies[size + 2], replies[size + 3], replies[size + 4] = 0, revision, token, ends
  size = size + 4
  return true
end

local function releaseQuickly(no, at, raw)
  if ARGV[at + 3] ~= 's00' then return false end
  local _, revision, token, dueAt, _, lastKind, _, _, _, _, attempt, _, _, ends, _, _, _, holder =
    unpackRow('${plainFormat}', raw)
  local who = ARGV[at + 1]
  if holder ~= who or token ~= tonumber(ARGV[at + 2]) or ends <= now then return false end
  -- It would have to be taken off the lists.
  if lastKind == 0 or dueAt <= now or dueAt > now + keepMs then return false end
  revision = later(revision)
  redis.call('SET', KEYS[no], packRow('${plainFormat}', ${plainTag}, revision, token, dueAt, now + keepMs, 1, attempt,
    now, 1, revision, 0, 0, 0, 0, 0, who, callIdOf(no), ''))
  replies[size + 1], replies[size + 2] = -1, revision
  size = size + 2
  return true
end

local quickSteps = { acquire = acquireQuickly, release = releaseQuickly }

local function takeQuickly(no, at, raw)
  if isSentAgain or not raw or byte(raw) ~= ${plainTag} then return false end
  local step = quickSteps[ARGV[at]]
  return step and step(no, at, raw)
end
`
