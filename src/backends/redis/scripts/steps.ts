import { clockText } from './clock.ts'
import { closingText } from './closing.ts'
import { lineText, stateText } from './line.ts'
import { rulesText } from './rules.ts'
import { createScript, type Script } from './script.ts'
import { shardText } from './shard.ts'
import { waitersText } from './waiters.ts'

/**
 * Steps on lines, several in one call: each is atomic, and one that fails is no other's trouble. For every step there
 * are eight KEYS and, in ARGV, its name, the line's name, an id of the call, how many arguments there are, and those.
 *
 * What a step did is told to whoever sends it a second time because the first answer was lost: asking for a place or
 * keeping it finds itself done already, and what cannot (a turn that was ended, a place that was left, an end that was
 * told) finds the answer that was given, by the id of the call. Somebody else's second try has another id and is judged
 * as it comes. A line remembers the last such answer; after another, a second try is one of its own.
 */
const settingsText = `
local isSentAgain = ARGV[2] == '1'
local waiterLeaseMs, streamedTakeUpMs, takeUpMs = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local keepMs, lockDelayMs, maxWaiters = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
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
  local value = ARGV[at + 5] == '1' and ARGV[at + 4]
  endTurn(ARGV[at + 2] == 'success' and succeeded or failed, value, ARGV[at + 3] == '1')
  return { 'released', holder ~= '' and holder }, true
end

function steps.renew(at)
  advance()
  local who, number, ms = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  if not isHeldBy(who, number) and not reassert(who, number, ms) then return { 'lost' } end
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
  return keepPlace(ARGV[at], tonumber(ARGV[at + 1]))
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

-- A line as it is, with up to so many who wait of either kind: the caller puts them in one order.
function steps.inspect(at)
  local limit = tonumber(ARGV[at])
  if revision == 0 or not wasBusy and forgetAt <= now then return { 'none' } end
  local waiters = {}
  if limit > 0 then
    for _, set in ipairs({ results > 0 and resultsKey or '', turns > 0 and turnsKey or '' }) do
      if set ~= '' then
        for _, who in ipairs(redis.call('ZRANGE', set, 0, limit - 1)) do
          local waiter = readWaiter(who)
          waiters[#waiters + 1] = { who, waiter.seq, waiter.since, waiter.wantsTurn }
        end
      end
    end
  end
  local last = lastKind > 0 and { lastKind, lastWho, lastAttempt, lastAt, hasLastValue == 1 and get('v') }
  return { 'line', wasBusy and 1 or 0, ends > now and holderView(), results + turns, waiters, last }
end

local answerKinds = { 'released', 'released', 'left', 'evicted', 'shortened' }
local answerNumbers = { released = 1, left = 3, evicted = 4, shortened = 5 }

local function rememberAnswer(answer)
  call, callKind, callEveryone, callRevision = callId, answerNumbers[answer[1]], isEveryone and 1 or 0, revision
  if answer[2] then callKind = 2 end
  callTold = told == none and '' or table.concat(told, '\\30')
end

-- The answer that was given to this call; who is next was told last.
local function answerBefore()
  local whom = {}
  for who in string.gmatch(callTold, '[^\\30]+') do whom[#whom + 1] = who end
  local kind = answerKinds[callKind]
  return { 1, callEveryone, callRevision, whom, { kind, callKind == 2 and whom[#whom] } }
end

local function takeStep(no, at)
  lineName, callId = ARGV[at + 1], ARGV[at + 2]
  openLine(no * 8 + 1)
  if isSentAgain and call == callId then return answerBefore() end
  local answer, isToBeRemembered = steps[ARGV[at]](at + 4)
  if isToBeRemembered then rememberAnswer(answer) end
  closeLine()
  return { isChanged and 1 or 0, isEveryone and 1 or 0, revision, told, answer }
end

return takeStep
end

local takeStep = define()
local replies = {}
local at = 9
while ARGV[at] do
  local isDone, reply = pcall(takeStep, #replies, at)
  if not isDone then reply = { type(reply) == 'table' and reply.err or tostring(reply) } end
  replies[#replies + 1] = reply
  at = at + 4 + tonumber(ARGV[at + 3])
end
return replies
`

/**
 * All functions are made within one: there they come by the variables of the script at no cost, where each would have to
 * search for each of them otherwise, in every call.
 */
const defineText = 'local function define()'

export const stepsScript: Script = createScript(
  clockText,
  settingsText,
  stateText,
  defineText,
  lineText,
  shardText,
  waitersText,
  closingText,
  rulesText,
  stepsText,
)
