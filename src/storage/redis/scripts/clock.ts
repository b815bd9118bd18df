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
