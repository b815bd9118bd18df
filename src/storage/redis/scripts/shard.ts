import { clockText, createScript, type Script } from './script.ts'

/**
 * The data of a shard, packed: the last token that was not simply the time, and an upper bound of all tokens; the end
 * and the start of the recovery grace; the longest lease since some time, and that of the day before; the run of the
 * server.
 */
export const shardFormat = '<ddddddds'

/** How far the recorded upper bound of tokens is ahead of the time, so that not every grant must write it: 5 s. */
export const tokenBlock = 5_000_000
export const dayMs = 86_400_000

/** The number of tokens given in this call. */
export const mintedText = 'local mintCount = 0'

/** The shard of the current wait queue, and its tokens. */
export const shardText: string = `
-- Each shard is read when it is needed first, and only once.
local shards = {}

local function shardInHand()
  local shard = shards[shardKey]
  if shard then return shard end
  shard = { token = 0, high = 0, graceUntil = 0, graceFrom = 0, ttl = 0, ttlBefore = 0, ttlFrom = 0, run = '' }
  local raw = redis.call('GET', shardKey)
  if raw then
    shard.token, shard.high, shard.graceUntil, shard.graceFrom, shard.ttl, shard.ttlBefore, shard.ttlFrom, shard.run =
      struct.unpack('${shardFormat}', raw)
  end
  shards[shardKey] = shard
  return shard
end

local function saveShard(shard)
  redis.call('SET', shardKey, struct.pack('${shardFormat}', shard.token, shard.high, shard.graceUntil,
    shard.graceFrom, shard.ttl, shard.ttlBefore, shard.ttlFrom, shard.run))
end

local function graceUntil()
  return shardInHand().graceUntil
end

-- The longest lease of today and of the day before: a grant that a fail-over loses lasts at most as long.
local function recordTtl(shard, ms)
  if ms <= shard.ttl and now - shard.ttlFrom < ${dayMs} then return false end
  if now - shard.ttlFrom >= ${dayMs} then
    shard.ttlBefore, shard.ttl, shard.ttlFrom = shard.ttl, 0, now
  end
  if ms > shard.ttl then shard.ttl = ms end
  return true
end

-- The token is the time in microseconds, if that is above all earlier tokens. The shard need not write each token to
-- know that: none is above the recorded upper bound, and a clock that went back by more than that distance is detected.
-- If the clock went back by less, the wait queue detects it, because it is kept for longer than that.
local function mintToken(ms)
  local shard = shardInHand()
  local isRecorded = recordTtl(shard, ms)
  -- Steps of one call have the same time.
  local time = micros + mintCount
  mintCount = mintCount + 1
  local minted = time
  if minted < shard.high - ${tokenBlock} then minted = shard.high + 1 end
  if minted <= shard.token then minted = shard.token + 1 end
  if minted <= lastToken then minted = lastToken + 1 end
  if minted > time then
    shard.token = minted
    isRecorded = true
  end
  if minted > shard.high then
    shard.high = minted == time and minted + ${tokenBlock} or minted
    isRecorded = true
  end
  if isRecorded then saveShard(shard) end
  return minted
end
`

const unpackText = `
local format = '${shardFormat}'
local function read(key)
  local raw = redis.call('GET', key)
  if not raw then return 0, 0, 0, 0, 0, 0, 0, '' end
  return struct.unpack(format, raw)
end
`

/** For each shard: the run of its server, and the longest recent lease. */
export const lookAtShardsScript: Script = createScript(
  unpackText,
  `
local shards = {}
for i = 1, #KEYS do
  local token, high, graceUntil, graceFrom, ttl, ttlBefore, ttlFrom, run = read(KEYS[i])
  shards[i] = { run, math.max(ttl, ttlBefore) }
end
return shards
`,
)

/**
 * Gives every shard the server's run id (ARGV 2). A shard with another run id begins a grace (ARGV 3, in milliseconds).
 * A shard in a grace may have to extend it.
 */
export const greetShardsScript: Script = createScript(
  clockText,
  unpackText,
  `
local run, graceMs = ARGV[2], tonumber(ARGV[3])
for i = 1, #KEYS do
  local token, high, graceUntil, graceFrom, ttl, ttlBefore, ttlFrom, known = read(KEYS[i])
  if known ~= run then graceFrom = now end
  if graceMs > 0 then graceUntil = math.max(graceUntil, graceFrom + graceMs) end
  redis.call('SET', KEYS[i], struct.pack(format, token, high, graceUntil, graceFrom, ttl, ttlBefore, ttlFrom, run))
end
`,
)
