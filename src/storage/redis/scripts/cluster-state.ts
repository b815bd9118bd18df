import { clockText } from './clock.ts'
import { createScript, type Script } from './script.ts'

/**
 * The cluster state of a namespace. KEYS: what is known of it (a hash of its newest version, the newest that was
 * forgotten, and the run of the server that wrote last), its rows (a hash), their versions (a sorted set), and when rows
 * were removed (a sorted set). All are in one slot.
 *
 * A row is one text: version, when it expires or nothing, and + with the document, or - of a row that was removed.
 *
 * A version is the time in microseconds, or one more than the last where that is not higher. So versions rise also after
 * a loss of data: a restarted server gives versions above all earlier ones. The first write of a run marks all lower
 * versions as forgotten, so a reader of lost rows begins anew.
 */
const boardText = `
local board, rows, versions, removed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local function known(name)
  return tonumber(redis.call('HGET', board, name) or 0)
end

local function whole(number)
  return string.format('%.0f', number)
end
`

/** ARGV: the clock, since, limit. Answers the time, whether it is a reset, and each row after its name. */
export const readClusterStateScript: Script = createScript(
  clockText,
  boardText,
  `
local since, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local forgotten = known('forgotten')
local isReset = since > 0 and (since < forgotten or since > known('version'))
if isReset then since = 0 end
-- A reader cannot continue below the forgotten version, so a page that starts at the beginning goes beyond it.
if since == 0 and forgotten > 0 then
  limit = math.max(limit, redis.call('ZCOUNT', versions, '-inf', whole(forgotten)) + 1)
end
local page = { now, isReset and 1 or 0 }
local names = redis.call('ZRANGEBYSCORE', versions, '(' .. whole(since), '+inf', 'LIMIT', 0, whole(limit))
for from = 1, #names, 500 do
  local to = math.min(#names, from + 499)
  for i, row in ipairs(redis.call('HMGET', rows, unpack(names, from, to))) do
    page[#page + 1] = names[from + i - 1]
    page[#page + 1] = row
  end
end
return page
`,
)

/**
 * ARGV: the clock, whether it is sent again, the run of the server, the namespace, and of each write: name, version seen,
 * document as in a row, for how long or nothing, and whether the row is one of those that must be placed or placed on.
 * Of those it is noted for all namespaces of the shard how many there are (KEYS 5, a sorted set).
 *
 * Answers the versions, joined by commas, with nothing for one that was too late. The answer is kept for a while (KEYS 6)
 * for who did not get it and sends the same again.
 */
export const writeClusterStateScript: Script = createScript(
  clockText,
  boardText,
  `
if ARGV[2] == '1' then
  local said = redis.call('GET', KEYS[6])
  if said then return said end
end
local version, forgotten, run = known('version'), known('forgotten'), ARGV[3]
-- The time stands still within a script, and versions do not.
version = math.max(version, micros - 1)
if redis.call('HGET', board, 'run') ~= run then
  version = version + 1
  forgotten = version
end
local answers = {}
local isWritten = false
local placed = 0
for at = 5, #ARGV, 5 do
  local name, seen, doc, forMs = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  local its = tonumber(redis.call('ZSCORE', versions, name) or 0)
  local isThere = its > 0 and not redis.call('ZSCORE', removed, name)
  if seen == its or (seen == 0 and not isThere) then
    version = version + 1
    isWritten = true
    local text = whole(version)
    local expiresAt = forMs ~= '' and whole(now + tonumber(forMs)) or ''
    redis.call('HSET', rows, name, text .. '\\31' .. expiresAt .. '\\31' .. doc)
    redis.call('ZADD', versions, text, name)
    if doc == '-' then
      redis.call('ZADD', removed, whole(now), name)
    else
      redis.call('ZREM', removed, name)
    end
    if ARGV[at + 4] == '1' then placed = placed + (doc == '-' and 0 or 1) - (isThere and 1 or 0) end
    answers[#answers + 1] = text
  else
    answers[#answers + 1] = ''
  end
end
local said = table.concat(answers, ',')
if isWritten then
  redis.call('HSET', board, 'version', whole(version), 'forgotten', whole(forgotten), 'run', run)
  redis.call('SET', KEYS[6], said, 'PX', 30000)
  if placed ~= 0 and tonumber(redis.call('ZINCRBY', KEYS[5], placed, ARGV[4])) <= 0 then
    redis.call('ZREM', KEYS[5], ARGV[4])
  end
end
return said
`,
)

/**
 * ARGV: the clock, the limit, and the minimum age. Answers how many rows were forgotten. The newest row stays, so a
 * reader that has read the cluster state to its end is above the forgotten version.
 */
export const pruneClusterStateScript: Script = createScript(
  clockText,
  boardText,
  `
local limit, before = tonumber(ARGV[2]), now - tonumber(ARGV[3])
local version, forgotten = known('version'), known('forgotten')
local count = 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', removed, '-inf', '(' .. whole(before), 'LIMIT', 0, limit + 1)) do
  local its = tonumber(redis.call('ZSCORE', versions, name))
  if count < limit and its < version then
    redis.call('HDEL', rows, name)
    redis.call('ZREM', versions, name)
    redis.call('ZREM', removed, name)
    forgotten = math.max(forgotten, its)
    count = count + 1
  end
end
if count > 0 then redis.call('HSET', board, 'forgotten', whole(forgotten)) end
return count
`,
)

/** KEYS: of shards, how much there is to place. ARGV: limit. Answers the names of namespaces in which there is anything. */
export const lookForClusterStatesScript: Script = createScript(`
local limit = tonumber(ARGV[1])
local found = {}
for i = 1, #KEYS do
  if #found >= limit then break end
  for _, namespace in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], 1, '+inf', 'LIMIT', 0, limit - #found)) do
    found[#found + 1] = namespace
  end
end
return found
`)
