import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Command, Effect } from './command.ts'
import { Mailbox, type MailboxOptions } from './mailbox.ts'

const submit = (taskId: string): Command => ({ kind: 'submit', task: { taskId } }) as unknown as Command
const cancel = (taskId: string): Command => ({ kind: 'cancel', taskId, reason: null })
const result = (taskId: string): Command => ({
  kind: 'result',
  nodeId: 'n',
  epoch: 1,
  taskId,
  attempt: 1,
  output: null,
})
const beat = (nodeId: string, cpu: number | null, countedSeq: number | null = null, epoch = 1): Command => ({
  kind: 'heartbeat',
  nodeId,
  epoch,
  load: cpu === null ? null : { cpu, gpu: null, memory: null },
  running: countedSeq === null ? null : [],
  countedSeq,
})
const rebuild: Command = { kind: 'rebuild' }

/** A mailbox whose clock moves by what each command is said to take. */
function box(options: MailboxOptions & { takesMs?: number; effects?: (command: Command) => Effect[] } = {}) {
  const { takesMs = 0, effects = () => [], ...rest } = options
  const served: Command[] = []
  const observed: [string, number, number, string][] = []
  const errors: unknown[] = []
  const turns: (() => void)[] = []
  const clock = { ms: 0 }
  const mailbox = new Mailbox(
    {
      apply: (command) => {
        served.push(command)
        clock.ms += takesMs
        return effects(command)
      },
      run: () => {},
      now: () => 1_000_000 + clock.ms,
      monotonicMs: () => clock.ms,
      defer: (turn) => turns.push(turn),
      observe: (...seen) => observed.push(seen),
      onError: (error) => errors.push(error),
    },
    rest,
  )
  const turn = () => turns.shift()?.()
  const kinds = () => served.map(({ kind }) => kind)
  return { mailbox, served, observed, errors, turns, turn, kinds, clock }
}

test('commands run by kind: results, dispatches, heartbeats, administration, slices', () => {
  const { mailbox, turn, kinds } = box()
  for (const command of [
    { kind: 'rebuildSlice' },
    rebuild,
    beat('n', 1),
    submit('t'),
    result('r'),
  ] as Command[]) {
    mailbox.post(command)
  }
  turn()
  assert.deepEqual(kinds(), ['result', 'submit', 'heartbeat', 'rebuild', 'rebuildSlice'])
})

test('of several heartbeats of a node the newest is applied, once, with fields that only older ones had', () => {
  const { mailbox, turn, served } = box()
  for (let i = 0; i < 1_000; i += 1) mailbox.post(beat('n', i / 1_000, i))
  mailbox.post(beat('m', 0.5))
  mailbox.post(beat('n', null))
  assert.equal(mailbox.depth().heartbeats, 2)
  turn()
  assert.deepEqual(served, [
    {
      kind: 'heartbeat',
      nodeId: 'n',
      epoch: 1,
      load: { cpu: 0.999, gpu: null, memory: null },
      running: [],
      countedSeq: 999,
    },
    beat('m', 0.5),
  ])
})

test('a heartbeat of an older instance does not displace a newer one', () => {
  const { mailbox, turn, served } = box()
  mailbox.post(beat('n', 0.1, 1, 2))
  mailbox.post(beat('n', 0.9, 9, 1))
  turn()
  assert.deepEqual(served, [beat('n', 0.1, 1, 2)])
})

test('a hello, or a report that a node is gone, is not undone by an earlier heartbeat', () => {
  const { mailbox, turn, kinds } = box()
  mailbox.post(beat('n', 0.1))
  mailbox.post({ kind: 'nodeGone', nodeId: 'n', epoch: 1, reason: 'silent' })
  turn()
  assert.deepEqual(kinds(), ['nodeGone'])
})

test('during a flood of dispatches, one heartbeat runs per four dispatches', () => {
  const { mailbox, turn, kinds } = box()
  for (let i = 0; i < 40; i += 1) mailbox.post(submit(`t${i}`))
  for (let i = 0; i < 10; i += 1) mailbox.post(beat(`n${i}`, 0))
  turn()
  assert.equal(
    kinds()
      .slice(0, 25)
      .filter((kind) => kind === 'heartbeat').length,
    5,
  )
})

test('a turn ends after a millisecond, or 256 commands, and the rest runs in a later turn', () => {
  const slow = box({ takesMs: 0.3 })
  for (let i = 0; i < 10; i += 1) slow.mailbox.post(submit(`t${i}`))
  slow.turn()
  assert.equal(slow.served.length, 4)
  assert.equal(slow.turns.length, 1)
  const fast = box()
  for (let i = 0; i < 600; i += 1) fast.mailbox.post(submit(`t${i}`))
  fast.turn()
  assert.equal(fast.served.length, 256)
  while (fast.turns.length > 0) fast.turn()
  assert.equal(fast.served.length, 600)
})

test('every turn runs an administrative command, however many dispatches wait', () => {
  const { mailbox, turn, kinds } = box({ takesMs: 0.3 })
  for (let i = 0; i < 100; i += 1) mailbox.post(submit(`t${i}`))
  mailbox.post(rebuild)
  turn()
  assert.equal(kinds().filter((kind) => kind === 'rebuild').length, 1)
})

test('a slice runs at least every 50 ms, and posts itself while work is left', () => {
  const moreWork: Effect[] = [{ kind: 'moreWork' }]
  const { mailbox, turn, kinds, turns, clock } = box({
    takesMs: 0.5,
    effects: ({ kind }) => (kind === 'rebuildSlice' ? moreWork : []),
  })
  clock.ms = 1_000
  mailbox.post({ kind: 'rebuildSlice' })
  for (let i = 0; i < 1_000; i += 1) mailbox.post(submit(`t${i}`))
  while (clock.ms < 1_400 && turns.length > 0) turn()
  const slices = kinds().filter((kind) => kind === 'rebuildSlice').length
  assert.ok(slices >= 7 && slices <= 10, `${slices} slices in 400 ms`)
})

test('lanes are bounded: excess commands are refused, and ticks do not pile up', () => {
  const { mailbox } = box({ maxDispatches: 2, maxResults: 1, maxAdmin: 1 })
  assert.deepEqual(
    [submit('a'), cancel('b'), submit('c')].map((each) => mailbox.post(each)),
    [true, true, false],
  )
  assert.deepEqual(
    [result('a'), result('b')].map((each) => mailbox.post(each)),
    [true, false],
  )
  assert.deepEqual(
    [rebuild, rebuild].map((each) => mailbox.post(each)),
    [true, false],
  )
  for (let i = 0; i < 5; i += 1) assert.equal(mailbox.post({ kind: 'tick' }), true)
  assert.deepEqual(mailbox.depth(), { results: 1, dispatches: 2, heartbeats: 0, admin: 2, slices: 0 })
})

test('the mailbox reports how long each command waited and ran, and its subject', () => {
  const { mailbox, turn, observed, clock } = box({ takesMs: 0.25 })
  mailbox.post(submit('a'))
  clock.ms += 3
  mailbox.post(result('b'))
  turn()
  assert.deepEqual(observed, [
    ['result', 0, 0.25, 'n'],
    ['submit', 3.25, 0.25, 'a'],
  ])
})

test('a command that throws is reported and does not stop the others; after close none is accepted', () => {
  const { mailbox, turn, errors, served } = box({
    effects: (command) => {
      if (command.kind === 'cancel') throw new Error('broken')
      return []
    },
  })
  mailbox.post(cancel('a'))
  mailbox.post(submit('b'))
  turn()
  assert.equal(errors.length, 1)
  assert.equal(served.length, 2)
  mailbox.close()
  assert.equal(mailbox.post(submit('c')), false)
})
