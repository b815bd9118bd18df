import assert from 'node:assert/strict'
import fc from 'fast-check'
import { describe, test } from 'vitest'
import type { WindowRecord } from '../monitor-store.ts'
import type { Recall } from './decide.ts'
import { type Decision, decide, type Listener, reasons, type Sighting } from './decide.ts'

const minute = 60_000

function aListener(listener: Partial<Listener> = {}): Listener {
  return {
    id: 'desk',
    windowMs: 5 * minute,
    notifyNew: false,
    reconcile: false,
    throttle: null,
    flap: null,
    ...listener,
  }
}

/** One subject and its windows, kept as a store keeps them, with time notified by hand. */
class Story {
  now = 1_000 * minute
  known: { stateHash: string; observedAt: number; windows: WindowRecord[] } | undefined
  recall: Recall | undefined
  counts = new Map<string, number>()
  sent: { subscriptionId: string; state: string; kind: string; decidedAt: number; ackedAt: number | null }[] =
    []
  looks: number[] = []
  #ids = 0
  readonly listeners: Listener[]

  constructor(...listeners: Listener[]) {
    this.listeners = listeners
  }

  see(stateHash: string, more: Partial<Sighting> = {}): Decision {
    const sighting: Sighting = {
      now: this.now,
      observedAt: this.now,
      stateHash,
      known: this.known,
      recall: this.recall,
      listeners: this.listeners,
      silencedUntil: null,
      isDuplicate: false,
      eventKeepMs: 5 * minute,
      counts: this.counts,
      isReconcile: false,
      ...more,
    }
    const decision = decide(sighting)
    this.recall = decision.recall
    if (decision.lookAgainAt !== null) this.looks.push(decision.lookAgainAt)
    const windows = this.known?.windows ?? []
    if (decision.isChange) this.known = { stateHash, observedAt: sighting.observedAt, windows }
    for (const { subscriptionId, notified, kind } of decision.verdicts) {
      if (!notified) continue
      const before = this.#take(subscriptionId, this.known!.stateHash)
      const notificationId = String(++this.#ids).padStart(6, '0')
      const notifiedAt = before?.notifiedAt ?? null
      const state = this.known!.stateHash
      this.known!.windows.push({
        subscriptionId,
        stateHash: state,
        status: 'pending',
        notificationId,
        notifiedAt,
        endsAt: null,
      })
      this.sent.push({ subscriptionId, state, kind, decidedAt: this.now, ackedAt: null })
      this.counts.set(subscriptionId, (this.counts.get(subscriptionId) ?? 0) + 1)
    }
    return decision
  }

  look(): Decision {
    return this.see(this.known!.stateHash, { isReconcile: true })
  }

  /** The oldest message on its way reaches its provider, or dies. */
  end(how: 'notified' | 'owed' = 'notified'): void {
    const pending = this.known?.windows.filter(({ status }) => status === 'pending') ?? []
    const [first] = pending.sort((a, b) => (a.notificationId < b.notificationId ? -1 : 1))
    if (!first) return
    const { windowMs } = this.listeners.find(({ id }) => id === first.subscriptionId)!
    const windows = this.known!.windows
    const ended: WindowRecord =
      how === 'owed'
        ? { ...first, status: how }
        : { ...first, status: how, notifiedAt: this.now, endsAt: this.now + windowMs }
    windows[windows.indexOf(first)] = ended
    if (how === 'notified') this.sent[Number(first.notificationId) - 1]!.ackedAt = this.now
  }

  pass(ms: number): this {
    this.now += ms
    return this
  }

  #take(subscriptionId: string, stateHash: string): WindowRecord | undefined {
    const { windows } = this.known!
    const at = windows.findIndex(
      (one) => one.subscriptionId === subscriptionId && one.stateHash === stateHash,
    )
    return at < 0 ? undefined : windows.splice(at, 1)[0]
  }
}

describe('the decision table for one subject', () => {
  type Step = readonly [at: number, state: string, reason: string]
  const stories: readonly {
    readonly name: string
    readonly steps: readonly Step[]
    readonly listener?: Partial<Listener>
  }[] = [
    {
      name: 'the first state is the baseline, and a repeated state is no change',
      steps: [
        [0, 'A', 'new'],
        [1, 'A', 'unchanged'],
      ],
    },
    {
      name: 'A→B notified, B→A notified, A→B within five minutes not, B→C notified',
      steps: [
        [0, 'A', 'new'],
        [0, 'B', 'changed'],
        [1, 'A', 'changed'],
        [2, 'B', 'notified_recently'],
        [6, 'C', 'changed'],
      ],
    },
    {
      name: 'a window ends on time, and a repeat does not extend it',
      steps: [
        [0, 'A', 'new'],
        [0, 'B', 'changed'],
        [3, 'A', 'changed'],
        [4, 'B', 'notified_recently'],
        [4.5, 'A', 'notified_recently'],
        [5, 'B', 'changed'],
      ],
    },
    {
      name: 'the baseline starts no window',
      steps: [
        [0, 'A', 'new'],
        [0.1, 'B', 'changed'],
        [0.2, 'A', 'changed'],
      ],
    },
    {
      name: 'a subscription to first states has a window for it',
      listener: { notifyNew: true },
      steps: [
        [0, 'A', 'new'],
        [1, 'B', 'changed'],
        [2, 'A', 'notified_recently'],
      ],
    },
    {
      name: 'a window of length zero notifies every change',
      listener: { windowMs: 0 },
      steps: [
        [0, 'A', 'new'],
        [0, 'B', 'changed'],
        [0, 'A', 'changed'],
        [0, 'B', 'changed'],
      ],
    },
  ]
  for (const { name, steps, listener } of stories) {
    test(name, () => {
      const story = new Story(aListener(listener))
      const start = story.now
      for (const [at, state, reason] of steps) {
        story.now = start + at * minute
        assert.equal(story.see(state).reason, reason, `${state} at ${at}`)
        story.end()
      }
    })
  }
})

test('a notification in flight is pending until it arrives; its window starts then', () => {
  const story = new Story(aListener())
  story.see('A')
  story.see('B')
  story.see('A')
  assert.equal(story.pass(minute).see('B').reason, 'pending')
  story.see('A')
  story.end()
  assert.equal(story.pass(5 * minute - 1).see('B').reason, 'notified_recently')
  story.see('A')
  assert.equal(story.pass(1).see('B').reason, 'changed')
})

test('without a window a repeat is notified although the first is still in flight', () => {
  const story = new Story(aListener({ windowMs: 0 }))
  const heard = ['A', 'B', 'A', 'B'].map((state) => story.see(state).reason)
  assert.deepEqual(heard, ['new', 'changed', 'changed', 'changed'])
})

test('a dead notification is owed and notified with the next report, unless the state was notified since', () => {
  const story = new Story(aListener())
  story.see('A')
  story.see('B')
  story.end('owed')
  const again = story.see('B')
  assert.deepEqual(
    [again.reason, again.isChange, again.verdicts[0]?.heardBy?.part],
    ['changed', false, 'from'],
  )
  story.end()
  assert.equal(story.see('B').reason, 'unchanged')
  const owedBefore = { ...story.known!.windows[0]!, status: 'owed' as const }
  story.known!.windows[0] = owedBefore
  assert.equal(story.see('B').reason, 'unchanged', 'it was notified, and a repeat of it died')
})

test('a different older observation is stale, and never becomes the present state', () => {
  const story = new Story(aListener())
  story.see('A')
  const late = story.see('B', { observedAt: story.now - 1 })
  assert.deepEqual([late.reason, late.isChange, late.verdicts], ['stale', false, []])
  assert.equal(story.see('A', { observedAt: story.now - 1 }).reason, 'unchanged')
  assert.equal(
    story.see('B', { observedAt: story.now }).reason,
    'changed',
    'of the same instant it is not older',
  )
})

test('without a subscription a change opens no window, and a later subscription gets the next change', () => {
  const story = new Story()
  story.see('A')
  assert.deepEqual([story.see('B').reason, story.known?.windows], ['no_subscriber', []])
  story.listeners.push(aListener())
  assert.equal(story.see('B').reason, 'unchanged')
  assert.equal(story.see('A').reason, 'changed')
})

test('a duplicate event is a change without a notification', () => {
  const story = new Story(aListener())
  story.see('A')
  const duplicate = story.see('B', { isDuplicate: true })
  assert.deepEqual(
    [duplicate.reason, duplicate.isChange, duplicate.verdicts[0]?.reason],
    ['duplicate_event', true, 'duplicate_event'],
  )
  assert.deepEqual(story.sent, [])
})

test('each subscription has its own windows, and one that is notified makes the change notified', () => {
  const story = new Story(aListener(), aListener({ id: 'hall', windowMs: 0 }))
  story.see('A')
  for (const state of ['B', 'A', 'B']) {
    story.see(state)
    story.end()
    story.end()
  }
  const last = story.see('A')
  assert.equal(last.reason, 'changed')
  assert.deepEqual(
    last.verdicts.map(({ subscriptionId, notified, reason }) => [subscriptionId, notified, reason]),
    [
      ['desk', false, 'notified_recently'],
      ['hall', true, 'changed'],
    ],
  )
})

test('a silenced change is silenced, whatever else applies', () => {
  const story = new Story(aListener({ reconcile: true }))
  story.see('A')
  const until = story.now + minute
  assert.equal(story.see('B', { silencedUntil: until }).reason, 'silenced')
  assert.deepEqual(story.looks, [until])
  assert.equal(story.pass(minute).look().verdicts[0]?.kind, 'reconcile', 'when it ends, it is notified')
})

test('a throttled subscription gets its maximum of notifications, and no more', () => {
  const story = new Story(aListener({ windowMs: 0, throttle: { max: 2, perMs: minute } }))
  story.see('A')
  const heard = ['B', 'C', 'D'].map((state) => story.see(state).reason)
  assert.deepEqual(heard, ['changed', 'changed', 'throttled'])
})

test('flapping is notified once, then nothing until the subject is calm', () => {
  const story = new Story(aListener({ windowMs: 0, flap: { changes: 3, withinMs: 10 * minute } }))
  story.see('A')
  const notified = ['B', 'A', 'B', 'A', 'B', 'A'].map((state) => {
    const { verdicts } = story.pass(minute).see(state)
    story.end()
    return `${verdicts[0]?.reason} ${verdicts[0]?.notified ? verdicts[0].kind : 'not'}`
  })
  assert.deepEqual(notified, [
    'changed change',
    'changed change',
    'changed change',
    'changed flapping',
    'flapping not',
    'flapping not',
  ])
  const calm = story.pass(10 * minute).see('B')
  assert.deepEqual([calm.reason, calm.verdicts[0]?.kind], ['changed', 'change'])
  assert.deepEqual(calm.recall.flapping, [])
})

test('flapping that calms down is reconciled with the last notified state', () => {
  const story = new Story(aListener({ reconcile: true, flap: { changes: 2, withinMs: 10 * minute } }))
  story.see('A')
  for (const state of ['B', 'A', 'B', 'C']) {
    story.pass(minute).see(state)
    story.end()
  }
  assert.equal(story.sent.at(-1)?.kind, 'flapping')
  story.now = story.looks.at(-1)!
  assert.equal(story.look().verdicts[0]?.kind, 'reconcile')
  assert.equal(story.sent.at(-1)?.state, 'C')
})

test('a reconcile notifies once a state that was held back, unless it is the last notified one', () => {
  const story = new Story(aListener({ reconcile: true }))
  const start = story.now
  for (const state of ['A', 'B', 'A', 'B']) {
    story.see(state)
    story.end()
    story.pass(minute)
  }
  assert.deepEqual(story.looks, [start + 6 * minute], 'when the window of B is over')
  assert.equal(story.look().verdicts[0]?.notified, false, 'not before')
  assert.deepEqual(story.looks, [start + 6 * minute], 'and one look at a time')
  story.now = start + 6 * minute
  const notified = story.look().verdicts[0]
  assert.deepEqual([notified?.notified, notified?.kind, notified?.heardBy?.part], [true, 'reconcile', 'to'])
  assert.deepEqual(story.look().verdicts, [])
  story.end()
  assert.deepEqual(story.look().verdicts, [])
})

test('a change held back by an event id is decided again once the id is free', () => {
  const story = new Story(aListener({ windowMs: 1_000, reconcile: true }))
  for (const state of ['A', 'B', 'A']) {
    story.see(state)
    story.end()
    story.pass(2_000)
  }
  assert.equal(story.see('B', { isDuplicate: true }).reason, 'duplicate_event')
  assert.deepEqual(story.looks, [story.now + 5 * minute])
  story.pass(5 * minute)
  assert.deepEqual(story.look().verdicts[0]?.kind, 'reconcile')
})

test("a reconcile knows each subscription's last notified state, also after its windows are pruned", () => {
  const story = new Story(aListener({ reconcile: true }))
  story.see('A')
  story.see('B')
  story.end()
  story.known!.windows.length = 0
  story.see('A', { silencedUntil: story.now + minute })
  story.pass(minute)
  assert.equal(story.look().verdicts[0]?.notified, true)
})

test('a reconcile of a state that returned to the earlier one notifies nothing', () => {
  const story = new Story(aListener({ reconcile: true }))
  story.see('A')
  story.see('B', { silencedUntil: story.now + minute })
  story.see('A', { silencedUntil: story.now + minute })
  story.pass(minute)
  assert.deepEqual(story.look().verdicts, [])
})

test('in random stories no state is notified twice within its window, and every change has a reason', () => {
  const step = fc.oneof(
    fc.record({
      do: fc.constant('see' as const),
      state: fc.constantFrom('A', 'B', 'C', 'D'),
      lateMs: fc.constantFrom(0, 0, 0, minute),
    }),
    fc.record({ do: fc.constantFrom('notified' as const, 'owed' as const) }),
    fc.record({ do: fc.constant('look' as const) }),
    fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 4 * minute }) }),
  )
  const listeners = fc.array(
    fc.record({
      windowMs: fc.constantFrom(0, minute, 5 * minute),
      reconcile: fc.boolean(),
      notifyNew: fc.boolean(),
    }),
    { minLength: 0, maxLength: 3 },
  )
  fc.assert(
    fc.property(listeners, fc.array(step, { maxLength: 60 }), (wants, steps) => {
      const story = new Story(...wants.map((want, index) => aListener({ id: `s${index}`, ...want })))
      for (const one of steps) {
        if (one.do === 'see') {
          const truth = story.known?.stateHash
          const decision = story.see(one.state, { observedAt: story.now - one.lateMs })
          assert.ok(reasons.includes(decision.reason))
          if (decision.isChange) assert.equal(decision.verdicts.length, story.listeners.length)
          else assert.equal(story.known?.stateHash, truth, 'only a change changes the truth')
          assert.ok(decision.lookAgainAt === null || decision.lookAgainAt > story.now)
        } else if (one.do === 'pass') story.pass(one.ms)
        else if (one.do === 'look') story.known && story.look()
        else story.end(one.do)
      }
      for (const { id, windowMs } of story.listeners.filter((one) => one.windowMs > 0)) {
        for (const state of ['A', 'B', 'C', 'D']) {
          const notified = story.sent.filter((one) => one.subscriptionId === id && one.state === state)
          const acked = notified.filter(({ ackedAt }) => ackedAt !== null)
          for (const [index, { ackedAt }] of acked.entries()) {
            const next = acked[index + 1]
            if (next) assert.ok(next.decidedAt >= ackedAt! + windowMs, `${state} again within its window`)
          }
        }
      }
    }),
    { numRuns: 500 },
  )
})
