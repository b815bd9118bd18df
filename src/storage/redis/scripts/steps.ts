import { defaultTtlMs } from '../../../locks/rules/index.ts'
import { clockText } from './clock.ts'
import { aloneText, closingText } from './closing.ts'
import { groupDueText, groupTakingText, groupText, settleText } from './group.ts'
import { quickText } from './quick.ts'
import { nextText, rulesText, standingText } from './rules.ts'
import { createScript, type Script, wholeText } from './script.ts'
import { callText, countsText, firstStepAt, settingsText } from './settings.ts'
import { mintedText, shardText } from './shard.ts'
import { queueText, revisionText, stateText } from './wait-queue.ts'
import { waitersText } from './waiters.ts'

/**
 * The replies to all steps, one after the other in one list: Redis takes longer to look whether a table is a list than
 * to send what is in it. For each there is how many items follow, then what changed (1: the wait queue, 2: all waiters got the
 * end, 4: a lease ran out, 8: the last item is what changed elsewhere), the revision, how many to notify, those, and the
 * answer. One that failed has one item, the reason. What was taken the short way (quick.ts) has its own form: 0, the
 * revision, the token and the end of a grant; or -1 and the revision of a release.
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
-- Each answers what it found, and whether that is to be remembered.
local steps = {}

function steps.acquire(at)
  advance()
  return stand(ARGV[at], at)
end

function steps.release(at)
  advance()
  if not isHeldBy(ARGV[at], tonumber(ARGV[at + 1])) then return { 'lost' } end
  -- s or f, whether it is for all, whether there is a value, and the value.
  local ending = ARGV[at + 2]
  local value = sub(ending, 3, 3) == '1' and sub(ending, 4)
  endTurn(sub(ending, 1, 1) == 's' and succeeded or failed, value, sub(ending, 2, 2) == '1')
  return { 'released', holder ~= '' and holder }, true
end

function steps.renew(at)
  advance()
  local who, number, ms = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  -- Redis lost the grant, so its lease time is unknown here.
  if not isHeldBy(who, number) and not reassert(who, number, ms or ${defaultTtlMs}) then return { 'lost' } end
  ms = ms or ttlMs
  local shard = shardInHand()
  if noteTtl(shard, ms) then saveShard(shard) end
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
    -- Its time is a later one, or the grace has put it off, or there is nothing to wait for any more.
    graceUntil()
    saveDue()
    if dueAt <= now then unlist() end
    isSaved = revision > 0
  end
  return none
end

-- A wait queue as it is, with a limited number of waiters of each kind: the caller merges them into one order.
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

-- Who holds it, and with which token.
function steps.holding()
  if holder == '' or ends <= now then return { 'none' } end
  return { 'held', holder, token }
end

-- 1: all waiters got the end. 2: a lease ran out.
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

-- The answer that was given to this call; the next holder is the last of the notified.
local function answerBefore()
  local whom = {}
  for who in string.gmatch(callNotified, '[^\\30]+') do whom[#whom + 1] = who end
  local kind = answerKinds[callKind]
  reply(1, callEveryone, callRevision, whom, { kind, callKind == 2 and whom[#whom] })
end

`

const takingText = `
local function takeStep(no, at, raw)
  callId = callIdOf(no)
  openQueue(no, raw)
  if isSentAgain and call == callId then return answerBefore() end
  local answer, isToBeRemembered = steps[ARGV[at]](at + 1)
  if isToBeRemembered then rememberAnswer(answer) end
  closeQueue()
  reply(isChanged and 1 or 0, endBits(), revision, notified, answer)
end

return takeStep
end

local takeByRules

local function takeStep(no, at)
  writeRows()
  local raw = rowOf(no)
  -- What the rules note is not known here.
  shardRows, touchedRows[KEYS[no]] = nil, false
  takeByRules = takeByRules or define()
  local isDone, problem = pcall(takeByRules, no, at, raw)
  if not isDone then replyProblem(problem) end
  sureSize = size
end

-- One of several steps is written out for the rules behind all others.
local wordCount = #ARGV
local spareAt = wordCount + 2

local function takeOneOf(no, step, second, third, fourth)
  ARGV[spareAt], ARGV[spareAt + 1], ARGV[spareAt + 2], ARGV[spareAt + 3] = step, second, third, fourth
  takeStep(no, spareAt)
end

local no, at, counts = 1, ${firstStepAt}, nil
while at <= wordCount do
  local step = ARGV[at]
  if step == 'acquires' then
    local last, ms, terms = no + tonumber(ARGV[at + 1]) - 1, ARGV[at + 2], ARGV[at + 3]
    local leaseMs = tonumber(ms)
    at = at + 4
    for no = no, last do
      local who, raw = ARGV[at], rowOf(no)
      if not isPlain(raw) or not takeQuickly(acquireQuickly, no, last, raw, who, leaseMs) then
        takeOneOf(no, 'acquire', who, ms, terms)
      end
      at = at + 1
    end
    no, shardRows = last + 1, nil
  elseif step == 'releases' then
    local last, ending = no + tonumber(ARGV[at + 1]) - 1, ARGV[at + 2]
    at = at + 3
    for no = no, last do
      local who, token, raw = ARGV[at], ARGV[at + 1], ending == 's00' and rowOf(no)
      if not isPlain(raw) or not takeQuickly(releaseQuickly, no, raw, who, tonumber(token)) then
        takeOneOf(no, 'release', who, token, ending)
      end
      at = at + 2
    end
    no = last + 1
  else
    takeStep(no, at)
    counts = counts or ${countsText}
    no, at = no + 1, at + 1 + counts[step]
  end
end
writeRows()
return replies
`

/**
 * All functions are made within one: there they come by the variables of the script at no cost, where each would have to
 * search for each of them otherwise, in every call.
 */
const defineText = 'local function define()'

export const stepsScript: Script = createScript(
  clockText,
  callText,
  repliesText,
  mintedText,
  quickText,
  defineText,
  wholeText,
  settingsText,
  stateText,
  queueText,
  revisionText,
  shardText,
  waitersText,
  aloneText,
  closingText,
  rulesText,
  nextText,
  standingText,
  stepsText,
  takingText,
)

/**
 * The same for wait queues whose operations exclude each other. For every step, the keys of the other wait queues follow
 * the step's keys; its arguments are followed by the number of wait queues, their names and which excludes which.
 */
export const groupStepsScript: Script = createScript(
  clockText,
  callText,
  repliesText,
  mintedText,
  `local counts = ${countsText}`,
  defineText,
  wholeText,
  settingsText,
  stateText,
  queueText,
  groupText,
  shardText,
  waitersText,
  groupDueText,
  closingText,
  rulesText,
  settleText,
  standingText,
  stepsText,
  groupTakingText,
)
