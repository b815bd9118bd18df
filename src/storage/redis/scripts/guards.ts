import type { GuardStep } from '../guards.ts'
import { clockText, createScript, type Script, wholeText } from './script.ts'

/** The number of arguments of each step. */
const counts: Readonly<Record<GuardStep, number>> = { claim: 5, settle: 4, renew: 3, forget: 0, seen: 3 }

/**
 * Steps on guards and windows, several in one call. Each is atomic, and a failed one does not affect the others. Each
 * step has one key in KEYS and, in ARGV, its name and its arguments.
 *
 * A guard is one text: its status (r unning, d one, f ailed) and mode (at l east, at m ost once), attempt, the token's
 * number and nonce, the time of the claim, how long its end is kept, when it ends, its fingerprint and its result. They
 * are joined by a character that none of them contains. A window is its end, its value and the nonce of the call that
 * opened it.
 *
 * A step that is repeated after a lost answer is recognized by its nonce and gets the same answer.
 */
const stepsText = `
local isSentAgain = ARGV[2] == '1'
local steps = {}
local counts = { ${Object.entries(counts)
  .map(([name, count]) => `${name} = ${count}`)
  .join(', ')} }
local replies = {}

local function parse(row)
  return string.match(row, '^(.)(.)\\31(%d+)\\31(%d+)\\31(%x+)\\31(%d+)\\31(%d+)\\31(%d+)\\31([^\\31]*)\\31(.*)$')
end

local function pack(status, mode, attempt, number, nonce, claimedAt, keepMs, endsAt, fingerprint, result)
  return status .. mode .. '\\31' .. attempt .. '\\31' .. number .. '\\31' .. nonce .. '\\31' .. claimedAt .. '\\31' ..
    keepMs .. '\\31' .. whole(endsAt) .. '\\31' .. fingerprint .. '\\31' .. result
end

-- An at-most-once guard stays until it is deleted by a call; any other guard stays until it expires.
local function write(key, status, mode, attempt, number, nonce, claimedAt, keepMs, endsAt, fingerprint, result)
  local row = pack(status, mode, attempt, number, nonce, claimedAt, keepMs, endsAt, fingerprint, result)
  if status == 'r' and mode == 'm' then return redis.call('SET', key, row) end
  local restMs = endsAt - now
  if status == 'r' then restMs = restMs + keepMs end
  if restMs < 1 then return redis.call('DEL', key) end
  return redis.call('SET', key, row, 'PX', whole(restMs))
end

function steps.claim(key, at)
  local nonce, leaseMs, keepMs, mode, fingerprint =
    ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  -- Most keys are new, and need nothing else.
  if mode == 'l' then
    local row = pack('r', mode, 1, whole(micros), nonce, whole(now), keepMs, now + leaseMs, fingerprint, '')
    if redis.call('SET', key, row, 'NX', 'PX', whole(leaseMs + keepMs)) then
      micros = micros + 1
      return micros - 1
    end
  end
  local attempt, number = 1, micros
  local row = redis.call('GET', key)
  if row then
    local status, itsMode, itsAttempt, itsNumber, itsNonce, _, itsKeepMs, endsAt, itsFingerprint, result = parse(row)
    endsAt = tonumber(endsAt)
    if isSentAgain and status == 'r' and itsNonce == nonce then
      return { 'run', itsNumber .. '.' .. nonce, tonumber(itsAttempt) }
    end
    local isOver = endsAt <= now
    if status ~= 'f' and (not isOver or (status == 'r' and itsMode == 'm')) then
      if itsFingerprint ~= fingerprint then return { 'mismatch' } end
      if isOver then return { 'stuck' } end
      if status == 'd' then return { 'done', result } end
      return { 'running', endsAt - now }
    end
    number = math.max(number, tonumber(itsNumber) + 1)
    local keptUntil = status == 'r' and endsAt + tonumber(itsKeepMs) or endsAt
    if status ~= 'd' and keptUntil > now then attempt = tonumber(itsAttempt) + 1 end
  end
  -- The clock does not advance within a script, but token numbers must.
  micros = number + 1
  number = whole(number)
  write(key, 'r', mode, attempt, number, nonce, whole(now), keepMs, now + leaseMs, fingerprint, '')
  return { 'run', number .. '.' .. nonce, attempt }
end

function steps.settle(key, at)
  local number, nonce, ending, result = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local row = redis.call('GET', key)
  -- A repeated release: the key is gone, as requested.
  if not row then return { isSentAgain and ending == 'x' and 1 or 0 } end
  local status, mode, attempt, itsNumber, itsNonce, claimedAt, keepMs, endsAt, fingerprint = parse(row)
  if itsNumber ~= number or itsNonce ~= nonce then return { 0 } end
  if status ~= 'r' then return { isSentAgain and status == ending and 1 or 0 } end
  if tonumber(endsAt) <= now and mode ~= 'm' then return { 0 } end
  if ending == 'x' then
    redis.call('DEL', key)
  else
    write(key, ending, mode, attempt, number, nonce, claimedAt, keepMs, now + tonumber(keepMs), fingerprint, result)
  end
  return { 1 }
end

function steps.renew(key, at)
  local row = redis.call('GET', key)
  if not row then return { 0 } end
  local status, mode, attempt, number, nonce, claimedAt, keepMs, endsAt, fingerprint = parse(row)
  if status ~= 'r' or number ~= ARGV[at] or nonce ~= ARGV[at + 1] then return { 0 } end
  endsAt = tonumber(endsAt)
  if endsAt <= now and mode ~= 'm' then return { 0 } end
  endsAt = math.max(endsAt, now + tonumber(ARGV[at + 2]))
  write(key, 'r', mode, attempt, number, nonce, claimedAt, keepMs, endsAt, fingerprint, '')
  return { endsAt }
end

function steps.forget(key)
  local row = redis.call('GET', key)
  if not row then return { 0 } end
  local status, mode, _, _, _, _, keepMs, endsAt = parse(row)
  redis.call('DEL', key)
  local keptUntil = tonumber(endsAt) + (status == 'r' and tonumber(keepMs) or 0)
  return { ((status == 'r' and mode == 'm') or keptUntil > now) and 1 or 0 }
end

function steps.seen(key, at)
  local value, nonce, windowMs = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local open = redis.call('GET', key)
  if open then
    local endsAt, itsValue, itsNonce = string.match(open, '^(%d+)\\31(%x*)\\31(%x+)$')
    if tonumber(endsAt) > now and itsValue == value then
      return { isSentAgain and itsNonce == nonce and 0 or 1 }
    end
  end
  local endsAt = whole(now + tonumber(windowMs))
  redis.call('SET', key, endsAt .. '\\31' .. value .. '\\31' .. nonce, 'PX', windowMs)
  return { 0 }
end

local at = 3
for no = 1, #KEYS do
  local name = ARGV[at]
  local isDone, reply = pcall(steps[name], KEYS[no], at + 1)
  replies[no] = isDone and reply or { 'error', type(reply) == 'table' and reply.err or tostring(reply) }
  at = at + 1 + counts[name]
end
return replies
`

export const guardsScript: Script = createScript(clockText, wholeText, stepsText)
