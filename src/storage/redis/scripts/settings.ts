import type { StepName } from '../stepper.ts'

/** Where in ARGV the steps begin. */
export const firstStepAt = 10

/** How many arguments each step takes. */
const counts: Readonly<Record<StepName, number>> = {
  acquire: 3,
  release: 3,
  renew: 5,
  shorten: 3,
  leave: 1,
  evict: 1,
  keep: 2,
  fail: 3,
  expire: 1,
  sweep: 0,
  inspect: 1,
  holding: 0,
}

/**
 * Steps on wait queues, several in one call. Each is atomic, and a failed one does not affect the others. Each step has the
 * key of the wait queue's row in KEYS and, in ARGV, its name and its arguments. Consecutive acquires with the same terms,
 * and releases with the same end, are merged where a wait queue stands alone: receiving a word costs Redis nearly as much
 * as acting on it.
 *
 *     acquires count ttlMs terms who who …        releases count ending who token who token …
 *
 * A caller that lost the answer sends the step again and gets the same answer. Asking for a position, or keeping it, finds
 * itself already done. The other steps (a turn that ended, a position that was left, an outcome that was delivered) find
 * their answer by the id of the call. Another caller's second try has another id and is judged anew. A wait queue
 * remembers only the last such answer; after a newer one, a second try counts as a new step.
 */
export const callText: string = `
local isSentAgain = ARGV[2] == '1'
local keepMs = tonumber(ARGV[7])

-- By which a step is known when it is sent again: the call's id, and which of its steps it is.
local function callIdOf(no)
  return ARGV[3] .. string.char(32 + no)
end
`

/** What only the rules have to know. */
export const settingsText: string = `
local waiterLeaseMs, streamedTakeUpMs, takeUpMs = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lockDelayMs, maxWaiters = tonumber(ARGV[8]), tonumber(ARGV[9])
`

/** How many arguments each step takes, by its name. */
export const countsText: string = `{ ${Object.entries(counts)
  .map(([name, count]) => `${name} = ${count}`)
  .join(', ')} }`
