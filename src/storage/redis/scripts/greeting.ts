import { clockText } from './clock.ts'
import { createScript, type Script } from './script.ts'
import { shardFormat } from './shard.ts'

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
