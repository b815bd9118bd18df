/**
 * Random stories of one venue, through the monitor and a store: whatever was notified, died, was forgotten or came back, in
 * the end people know the truth. `SIGNALBOX_TEST_RUNS` runs more of them.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { minute, openStand, place, type Stand } from './stand.ts'

const runs = Number(process.env.SIGNALBOX_TEST_RUNS ?? 150)
const windowMs = 5 * minute

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('see' as const), state: fc.constantFrom('A', 'B', 'C') }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('sent' as const, 'dead' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.oneof(fc.constant(1_000), fc.integer({ min: 0, max: 8 * minute })),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('prune' as const) }) },
)

interface Heard {
  readonly state: string
  readonly at: number
}

/** The oldest message on its way reaches its provider, or dies; false: there is none. */
async function end(stand: Stand, outcome: 'sent' | 'dead', heard: Heard[]): Promise<boolean> {
  const first = (await stand.backend.monitor.notifications({ status: 'pending', limit: 1_000 })).at(-1)
  if (first === undefined) return false
  await stand.sendNext(outcome)
  if (outcome === 'sent') heard.push({ state: JSON.parse(first.to), at: stand.now })
  return true
}

for (const reconcile of [false, true]) {
  const name = reconcile
    ? 'in a random story a subscriber that reconciles was last notified of the present state'
    : 'in a random story the present state was notified last, or its window was open when it returned'
  test(name, { timeout: 60_000 }, async () => {
    const story = fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      await using stand = await openStand({ eventDedupTtlMs: 1 })
      await stand.subscribe({ windowMs, reconcile })
      const heard: Heard[] = []
      await stand.see({ v: 'A' })
      let [truth, changedAt] = ['A', stand.now]
      const sendAll = async () => {
        while (await end(stand, 'sent', heard));
      }
      for (const one of steps) {
        stand.pass(5)
        if (one.do === 'see') {
          if (one.state !== truth) [truth, changedAt] = [one.state, stand.now]
          await stand.see({ v: one.state })
        } else if (one.do === 'pass') stand.pass(one.ms)
        else if (one.do === 'prune')
          await stand.backend.monitor.prune({ olderThanMs: 2 * windowMs, limit: 100 })
        else await end(stand, one.do, heard)
      }
      await sendAll()
      // Twice: what was owed may have been notified after what was held back.
      for (let look = 0; reconcile && look < 2; look++) {
        stand.pass(windowMs + minute)
        await stand.monitor.reconcile({ ...place, venueId: 'v' })
        await sendAll()
      }
      stand.pass(5)
      await stand.see({ v: truth })
      await sendAll()
      const last = heard.at(-1)?.state ?? 'A'
      const wasInWindow = heard.some(({ state, at }) => state === truth && at + windowMs > changedAt)
      assert.ok(last === truth || (!reconcile && wasInWindow), `it is ${truth}, and ${last} was heard last`)
    })
    await fc.assert(story, { numRuns: runs })
  })
}
