import { createHash } from 'node:crypto'

/** A Lua script: its text never changes, and what it works on comes to it by KEYS and ARGV alone. */
export interface Script {
  readonly text: string
  /** By which Redis knows it once it was loaded. */
  readonly hash: string
}

export function createScript(...parts: readonly string[]): Script {
  const text = parts.join('\n')
  return { text, hash: createHash('sha1').update(text).digest('hex') }
}

/**
 * Whole numbers as text, and none of them as 1.7e+15. Where %d takes numbers of this size, as in any Redis of 64 bits,
 * it is several times as fast as %.0f.
 */
export const wholeText: string = `
local wholeFormat = string.format('%d', 1099511627776) == '1099511627776' and '%d' or '%.0f'

local function whole(number)
  return string.format(wholeFormat, number)
end
`

/**
 * The time, as the first argument of a script: nothing for the server's own clock, which is what counts, or an instant
 * in microseconds for tests that move it by hand.
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
