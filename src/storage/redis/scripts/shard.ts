import { clockText, createScript, type Script } from './script.ts'

/**
 * What a shard knows, packed:
 * the last token that was not simply the time, and one that none is above; until when the recovery grace is, and from
 * when; the longest lease since some time, and of the day before that; the run of the server.
 */
export const shardFormat = '<ddddddds'

/** How far ahead of the time the highest token is noted, so that not every grant has to write it: 5 s. */
export const tokenBlock = 5_000_000
export const dayMs = 86_400_000

/** How many tokens were given in this call. */
export const mintedText = 'local mintCount = 0'

/** The shard of the wait queue in hand, and its tokens. */
export const shardText: string = `
-- Shards are read when they are needed, and then once.
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

-- The longest lease of today and of the day before: as long may a grant last that a fail-over loses.
local function noteTtl(shard, ms)
  if ms <= shard.ttl and now - shard.ttlFrom < ${dayMs} then return false end
  if now - shard.ttlFrom >= ${dayMs} then
    shard.ttlBefore, shard.ttl, shard.ttlFrom = shard.ttl, 0, now
  end
  if ms > shard.ttl then shard.ttl = ms end
  return true
end

-- The time in microseconds, if that is above all tokens so far. Whether it is can be told without having written each
-- of them: none is above the highest that was noted, and a clock that has gone back by more than the distance shows.
-- One that has gone back by less is caught by the wait queue, which is kept for longer than that.
local function mintToken(ms)
  local shard = shardInHand()
  local isNoted = noteTtl(shard, ms)
  -- Steps of one call have the same time.
  local time = micros + mintCount
  mintCount = mintCount + 1
  local minted = time
  if minted < shard.high - ${tokenBlock} then minted = shard.high + 1 end
  if minted <= shard.token then minted = shard.token + 1 end
  if minted <= lastToken then minted = lastToken + 1 end
  if minted > time then
    shard.token = minted
    isNoted = true
  end
  if minted > shard.high then
    shard.high = minted == time and minted + ${tokenBlock} or minted
    isNoted = true
  end
  if isNoted then saveShard(shard) end
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

/** For each shard: the run of the server it belongs to, and the longest lease that was given in it lately. */
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
 * Tells every shard the server's run id (ARGV 2). A shard that knew another run begins a grace (ARGV 3, in milliseconds);
 * a shard in a grace may have to make it longer.
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
