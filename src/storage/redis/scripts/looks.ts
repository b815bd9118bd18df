import { clockText } from './clock.ts'
import { createScript, type Script } from './script.ts'

/** Due entries of some shards (KEYS), at most ARGV 2: wait queues, and their waiters. */
export const lookForDueScript: Script = createScript(
  clockText,
  `
local limit = tonumber(ARGV[2])
local found = {}
for i = 1, #KEYS do
  if #found >= limit then break end
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '-inf', now, 'LIMIT', 0, limit - #found)) do
    found[#found + 1] = entry
  end
end
return found
`,
)

/** The positions that some (ARGV) have in the wait queues of some shards (KEYS), up to 100 of each in each. */
export const lookForWaitsScript: Script = createScript(`
local found = {}
for i = 1, #ARGV do found[i] = {} end
for k = 1, #KEYS do
  if redis.call('EXISTS', KEYS[k]) == 1 then
    for i = 1, #ARGV do
      local from, to = '[' .. ARGV[i] .. '\\30', '(' .. ARGV[i] .. '\\31'
      for _, wait in ipairs(redis.call('ZRANGEBYLEX', KEYS[k], from, to, 'LIMIT', 0, 100)) do
        found[i][#found[i] + 1] = wait
      end
    end
  end
end
return found
`)

/** Names of busy wait queues from each of some shards (KEYS), from one name (ARGV 1) to another (2), at most ARGV 3. */
export const lookForBusyScript: Script = createScript(`
local pages = {}
for i = 1, #KEYS do
  pages[i] = redis.call('ZRANGEBYLEX', KEYS[i], ARGV[1], ARGV[2], 'LIMIT', 0, tonumber(ARGV[3]))
end
return pages
`)

/** Wakes the channels given after the sender's own name. */
export const wakeScript: Script = createScript(`
for i = 2, #ARGV do redis.call('PUBLISH', ARGV[i], ARGV[1]) end
`)
