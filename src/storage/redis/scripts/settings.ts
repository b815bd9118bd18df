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
 * Steps on wait queues, several in one call: each is atomic, and one that fails is no other's trouble. For every step there is
 * the key of the wait queue's row in KEYS and, in ARGV, its name and as many arguments as it takes. Acquires that follow each
 * other on the same terms, and releases that end alike, are said together where a wait queue stands alone: to be sent a word
 * costs Redis nearly as much as to act on it.
 *
 *     acquires count ttlMs terms who who …        releases count ending who token who token …
 *
 * What a step did is told to whoever sends it a second time because the first answer was lost: asking for a position or
 * keeping it finds itself done already, and what cannot (a turn that was ended, a position that was left, an end that was
 * told) finds the answer that was given, by the id of the call. Somebody else's second try has another id and is judged
 * as it comes. A wait queue remembers the last such answer; after another, a second try is one of its own.
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
