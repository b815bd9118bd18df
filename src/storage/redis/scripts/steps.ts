import { defaultTtlMs } from '../../../locks/rules/index.ts'
import type { StepName } from '../stepper.ts'
import { groupText, settleText } from './group.ts'
import { quickText } from './quick.ts'
import { rulesText, standingText } from './rules.ts'
import { clockText, createScript, type Script, wholeText } from './script.ts'
import { mintedText, shardText } from './shard.ts'
import { closingText, queueText, stateText } from './wait-queue.ts'
import { waitersText } from './waiters.ts'

/** The index in ARGV at which the steps begin. */
const firstStepAt = 10

/** The number of arguments of each step. */
const counts: Readonly<Record<StepName, number>> = {
  acquire: 3,
  release: 3,
  renew: 5,
  shorten: 3,
  leave: 1,
  evict: 1,
  keep: 2,
  fail: 3,
  expire: 1,
  sweep: 0,
  inspect: 1,
  holding: 0,
}

/**
 * Steps on wait queues, several in one call. Each is atomic, and a failed one does not affect the others. Each step has
 * the key of the wait queue's row in KEYS and, in ARGV, its name, its group and its arguments. The group is empty if
 * the operation excludes no other. Otherwise the keys of the others follow in KEYS, and the group has their number and
 * the pairs that exclude each other: `2 1-2,2-3`.
 *
 * A caller that lost the answer repeats the step and gets the same answer. Requests for a position, and renewals of it,
 * find that they are already done. Other steps (the end of a turn, leaving a position, the delivery of an outcome) find
 * their answer by the id of the call. The second try of another caller has another id and is judged anew. A wait queue
 * remembers only the last such answer; after a newer one, a second try counts as a new step.
 */
const callText: string = `
local isSentAgain = ARGV[2] == '1'
local keepMs = tonumber(ARGV[7])

-- Identifies a repeated step: the call's id, and the number of the step in it.
local function callIdOf(no)
  return ARGV[3] .. string.char(32 + no)
end
`

/** Settings that only the rules use. */
const settingsText: string = `
local waiterLeaseMs, streamedTakeUpMs, takeUpMs = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lockDelayMs, maxWaiters = tonumber(ARGV[8]), tonumber(ARGV[9])
`

/** The number of arguments of each step, by its name. */
const countsText: string = `{ ${Object.entries(counts)
  .map(([name, count]) => `${name} = ${count}`)
  .join(', ')} }`

/**
 * The replies to all steps, in one flat list: Redis takes longer to check whether a table is a list than to send its
 * items. Each reply begins with the number of its items. Then follow the changes (1: the wait queue, 2: all waiters got
 * the end, 4: a lease expired, 8: the last item has the changes elsewhere), the revision, the number of requesters to
 * notify, their names, and the answer. A failed step has one item, the reason. A step on the short path (quick.ts) has
 * its own form: 0, the revision, the token and the end of a grant; or -1 and the revision of a release.
 */
const repliesText = `
local replies, size = {}, 0

local function reply(changedBit, ended, revision, notified, answer, elsewhere)
  local at, notifiedCount, answerCount = size + 4, #notified, #answer
  replies[size + 2], replies[size + 3], replies[at] = changedBit + 2 * ended, revision, notifiedCount
  for i = 1, notifiedCount do replies[at + i] = notified[i] end
  at = at + notifiedCount
  for i = 1, answerCount do replies[at + i] = answer[i] end
  at = at + answerCount
  if elsewhere then
    replies[size + 2] = replies[size + 2] + 8
    at = at + 1
    replies[at] = elsewhere
  end
  replies[size + 1] = at - size - 1
  size = at
end

local function replyProblem(problem)
  replies[size + 1], replies[size + 2] = 1, type(problem) == 'table' and problem.err or tostring(problem)
  size = size + 2
end
`

const stepsText = `
-- Each returns its answer, and whether to remember it.
local steps = {}

function steps.acquire(at)
  advance()
  return answerAcquire(ARGV[at], at)
end

function steps.release(at)
  advance()
  if not isHeldBy(ARGV[at], tonumber(ARGV[at + 1])) then return { 'lost' } end
  -- s or f, whether it is for all, whether there is a value, and the value.
  local ending = ARGV[at + 2]
  local value = sub(ending, 3, 3) == '1' and sub(ending, 4)
  endTurn(sub(ending, 1, 1) == 's' and succeeded or failed, value, sub(ending, 2, 2) == '1')
  if holder == '' then return { 'released', false }, true end
  return { 'released', holder, token, heldAttempt }, true
end

function steps.renew(at)
  advance()
  local who, number, ms = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  -- Redis lost the grant, so its lease time is unknown here.
  if not isHeldBy(who, number) and not reassert(who, number, ms or ${defaultTtlMs}) then return { 'lost' } end
  ms = ms or ttlMs
  local shard = shardInHand()
  if recordTtl(shard, ms) then saveShard(shard) end
  return { 'renewed', extend(ms, ARGV[at + 3], ARGV[at + 4]) }
end

function steps.shorten(at)
  advance()
  if not isHeldBy(ARGV[at], tonumber(ARGV[at + 1])) then return { 'lost' } end
  shorten(tonumber(ARGV[at + 2]))
  return { 'shortened' }, isChanged
end

function steps.leave(at)
  advance()
  local left = leave(ARGV[at])
  return { left }, left == 'left'
end

function steps.evict(at)
  advance()
  local isEvicted = evict(ARGV[at])
  return { isEvicted and 'evicted' or 'none' }, isEvicted
end

function steps.keep(at)
  advance()
  return keepPosition(ARGV[at], tonumber(ARGV[at + 1]))
end

function steps.fail(at)
  advance()
  local isFailed = fail(ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2])
  return { isFailed and 'failed' or 'none' }, isFailed
end

function steps.expire(at)
  advance()
  expire(ARGV[at])
  return none
end

function steps.sweep()
  advance()
  if not isChanged and dueAt <= now then
    -- Its due time is later, or the grace has postponed it, or nothing is due any longer.
    graceUntil()
    saveDue()
    if dueAt <= now then unlist() end
    isSaved = revision > 0
  end
  return none
end

-- The current wait queue, with a limited number of waiters of each kind: the caller merges them into one order.
function steps.inspect(at)
  local limit = tonumber(ARGV[at])
  if revision == 0 or not wasBusy and forgetAt <= now then return { 'none' } end
  local waiters = {}
  if limit > 0 then
    for _, set in ipairs({ results > 0 and own('results') or '', turns > 0 and own('turns') or '' }) do
      if set ~= '' then
        for _, who in ipairs(redis.call('ZRANGE', set, 0, limit - 1)) do
          local waiter = readWaiter(who)
          waiters[#waiters + 1] = { who, waiter.seq, waiter.since, waiter.wantsTurn }
        end
      end
    end
  end
  local last = lastKind > 0 and { lastKind, lastWho, lastAttempt, lastAt, hasLastValue == 1 and get('v') }
  return { 'queue', wasBusy and 1 or 0, ends > now and holderView(), results + turns, waiters, last }
end

-- The holder, and its token.
function steps.holding()
  if holder == '' or ends <= now then return { 'none' } end
  return { 'held', holder, token }
end

-- 1: all waiters got the end. 2: a lease expired.
local function endBits()
  return (isEveryone and 1 or 0) + (isLapsed and 2 or 0)
end

local answerKinds = { 'released', 'released', 'left', 'evicted', 'shortened', 'failed' }
local answerNumbers = { released = 1, left = 3, evicted = 4, shortened = 5, failed = 6 }

local function rememberAnswer(answer)
  call, callKind, callEveryone, callRevision = callId, answerNumbers[answer[1]], isEveryone and 1 or 0, revision
  if answer[2] then callKind = 2 end
  callNotified = notified == none and '' or table.concat(notified, '\\30')
end

-- The answer that this call got before. The next holder is the last of the notified.
local function answerBefore()
  local whom = {}
  for who in string.gmatch(callNotified, '[^\\30]+') do whom[#whom + 1] = who end
  local kind = answerKinds[callKind]
  reply(1, callEveryone, callRevision, whom, { kind, callKind == 2 and whom[#whom] })
end

`

const takingText = `
local function takeStep(no, keysAt, at, groupText)
  callId = callIdOf(no)
  openGroup(keysAt, groupText)
  if isSentAgain and call == callId then return answerBefore() end
  local answer, isToBeRemembered = steps[ARGV[at]](at + 2)
  -- A position that was left may have blocked other waiters.
  if isChanged and #group > 1 then settle() end
  if isToBeRemembered then rememberAnswer(answer) end
  local elsewhere
  for other = 2, #group do
    switchTo(other)
    closeQueue()
    if isChanged then
      elsewhere = elsewhere or {}
      elsewhere[#elsewhere + 1] = { queueName(), endBits(), notified }
    end
  end
  switchTo(1)
  closeQueue()
  reply(isChanged and 1 or 0, endBits(), revision, notified, answer, elsewhere)
end

return takeStep
end

local takeByRules

local no, keysAt, at = 1, 1, ${firstStepAt}
while ARGV[at] do
  local step, groupText = ARGV[at], ARGV[at + 1]
  local othersCount = groupText == '' and 0 or tonumber(string.match(groupText, '%d+'))
  if groupText ~= '' or not takeQuickly(step, no, keysAt, at + 2) then
    takeByRules = takeByRules or define()
    local isDone, problem = pcall(takeByRules, no, keysAt, at, groupText)
    if not isDone then replyProblem(problem) end
    -- The rules may have changed the shards, so read these again.
    shardRows = nil
    for i = keysAt, keysAt + othersCount do rows[KEYS[i]] = nil end
  end
  no, keysAt, at = no + 1, keysAt + 1 + othersCount, at + 2 + counts[step]
end
return replies
`

/**
 * All functions are defined inside one function: there they reach the script's variables at no cost. Otherwise each
 * function would search for each variable in every call.
 */
const defineText = 'local function define()'

export const stepsScript: Script = createScript(
  clockText,
  callText,
  repliesText,
  mintedText,
  quickText,
  `local counts = ${countsText}`,
  defineText,
  wholeText,
  settingsText,
  stateText,
  queueText,
  groupText,
  shardText,
  waitersText,
  closingText,
  rulesText,
  settleText,
  standingText,
  stepsText,
  takingText,
)
