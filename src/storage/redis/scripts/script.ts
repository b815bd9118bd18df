import { createHash } from 'node:crypto'

/** A Lua script. Its text never changes; all its input is in KEYS and ARGV. */
export interface Script {
  readonly text: string
  /** The name by which Redis knows it after it was loaded. */
  readonly hash: string
}

export function createScript(...parts: readonly string[]): Script {
  const text = parts.join('\n')
  return { text, hash: createHash('sha1').update(text).digest('hex') }
}

/**
 * Formats whole numbers as text, never as 1.7e+15. If %d can format numbers of this size, as in any 64-bit Redis, it is
 * several times faster than %.0f.
 */
export const wholeText: string = `
local wholeFormat = string.format('%d', 1099511627776) == '1099511627776' and '%d' or '%.0f'

local function whole(number)
  return string.format(wholeFormat, number)
end
`

/**
 * The time, as the first argument of a script: empty for the server's own clock, which production uses, or a time in
 * microseconds for tests that set it.
 */
export const clockText: string = `
local micros
if ARGV[1] == '' then
  local time = redis.call('TIME')
  micros = time[1] * 1000000 + time[2]
else
  micros = tonumber(ARGV[1])
end
local now = math.floor(micros / 1000)
`
