import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import { againDisturbedMs, againMs, checkDispatch, type DispatchEvidence } from './dispatch-checker.ts'
import {
  type NodeEvent,
  type RestingNode,
  refusedCode,
  type SeenTask,
  type Slots,
  type SubmitNote,
} from './dispatch-plan.ts'

/** What one instance wrote down; `n1.0` has a slot of each service and `n2.0` two. */
function node(instance: string, slots: Slots) {
  const of = (taskId: string, attempt: number, t: number) => ({ instance, taskId, attempt, t })
  return {
    up: { type: 'up', instance, nodeId: instance.split('.')[0]!, slots, t: 0 } as NodeEvent,
    begin: (taskId: string, attempt: number, t: number, uses: Slots = { asr: 1 }): NodeEvent => ({
      type: 'begin',
      ...of(taskId, attempt, t),
      number: Number(taskId.slice(1)),
      uses,
    }),
    end: (
      taskId: string,
      attempt: number,
      t: number,
      how: 'completed' | 'failed' | 'refused' | 'aborted' = 'completed',
    ): NodeEvent => ({ type: 'end', ...of(taskId, attempt, t), how }),
    busy: (taskId: string, attempt: number, t: number): NodeEvent => ({
      type: 'busy',
      ...of(taskId, attempt, t),
    }),
    stale: (taskId: string, attempt: number, t: number): NodeEvent => ({
      type: 'stale',
      ...of(taskId, attempt, t),
    }),
    settled: (taskId: string, attempt: number, t: number): NodeEvent => ({
      type: 'settled',
      ...of(taskId, attempt, t),
    }),
  }
}

const small = node('n1.0', { asr: 1, nmt: 1 })
const large = node('n2.0', { asr: 2, nmt: 2 })
const submit: SubmitNote = { number: 1, wish: 'plain', deadlineMs: null, taskId: 't1' }
const done: SeenTask = {
  taskId: 't1',
  status: 'completed',
  attempt: 1,
  output: { instance: 'n1.0', attempt: 1 },
  errorCode: null,
  submittedAt: 0,
  finishedAt: 20,
}
const idle: RestingNode = { server: 'east', nodeId: 'n1', status: 'ready', used: { asr: 0, nmt: 0 } }
const ran = [small.begin('t1', 1, 10), small.end('t1', 1, 20), small.settled('t1', 1, 21)]

/** The history of one task that all went well for, but for what is given. */
function complaintsAbout({ nodes = ran, ...given }: Partial<DispatchEvidence>): string {
  const { complaints } = checkDispatch({
    blows: [],
    submits: [submit],
    seen: [],
    last: [done],
    resting: [idle],
    filled: { slots: 3, running: 3 },
    clockMs: 0,
    nodes: [small.up, large.up, ...nodes],
    ...given,
  })
  return complaints.join('\n')
}

test('the checker accepts and counts a task that ran, ended and was confirmed', () => {
  assert.equal(complaintsAbout({ seen: [{ ...done, status: 'running', finishedAt: null }, done] }), '')
  const { counts } = checkDispatch({
    ...{ blows: [], submits: [], seen: [], resting: [], filled: { slots: 0, running: 0 }, clockMs: 0 },
    nodes: [small.up, ...ran, large.begin('t1', 2, 15), large.stale('t1', 2, 22)],
    last: [done],
  })
  assert.deepEqual(counts, { tasks: 1, runs: 2, 're-dispatches': 1, 'stale refused': 1 })
})

describe('rule R1 of the checker', () => {
  const other = { ...done, taskId: 't2', output: { instance: 'n1.0', attempt: 1 } }
  const both = { last: [done, other] }

  test('refuses more tasks at once than slots, and accepts tasks one after the other', () => {
    const [begun, ended] = [small.begin('t2', 1, 15), small.end('t2', 1, 18)]
    assert.match(
      complaintsAbout({ ...both, nodes: [ran[0]!, begun, ended, ran[1]!] }),
      /R1: n1\.0 ran 2 of asr at once and has 1: t1#1, t2#1/,
    )
    assert.equal(complaintsAbout({ ...both, nodes: [...ran, begun, ended] }), '')
  })

  test('counts a second service as well, and a revoked task until its handler returns', () => {
    const nmt = [small.begin('t2', 1, 15, { nmt: 1 }), small.end('t2', 1, 18)]
    const first = small.begin('t1', 1, 10, { asr: 1, nmt: 1 })
    assert.match(complaintsAbout({ ...both, nodes: [first, ...nmt, ran[1]!] }), /R1: n1\.0 ran 2 of nmt/)
    const nodes = [small.begin('t1', 1, 10), small.stale('t1', 1, 11), small.begin('t1', 2, 12)]
    const ends = [small.end('t1', 1, 13, 'aborted'), small.end('t1', 2, 20)]
    const last = [{ ...done, attempt: 2, output: { instance: 'n1.0', attempt: 2 } }]
    assert.match(complaintsAbout({ last, nodes: [...nodes, ...ends] }), /R1: n1\.0 ran 2 of asr/)
  })

  test('refuses a task for which the node had no slot', () => {
    assert.match(
      complaintsAbout({ nodes: [...ran, small.busy('t1', 2, 30)] }),
      /R1: n1\.0 was given t1#2 and had no/,
    )
  })

  test('refuses a service that the node does not offer', () => {
    const nodes = [small.begin('t1', 1, 10, { tts: 1 }), ...ran.slice(1)]
    assert.match(complaintsAbout({ nodes }), /R1: n1\.0 ran 1 of tts at once and has 0/)
  })
})

describe('rule R2 of the checker', () => {
  test('refuses a slot that is taken at rest, and a node that is not ready', () => {
    const taken = { ...idle, used: { asr: 1, nmt: 0 } }
    assert.match(complaintsAbout({ resting: [taken] }), /R2: at rest east says 1 of asr taken on n1/)
    assert.match(
      complaintsAbout({ resting: [{ ...idle, status: 'missing' }] }),
      /R2: at rest east says that n1 is missing/,
    )
  })

  test('refuses slots that cannot be used at the end', () => {
    assert.match(complaintsAbout({ filled: { slots: 3, running: 2 } }), /R2: 2 tasks ran at once at last/)
  })
})

describe('rule R4 of the checker', () => {
  test('refuses an attempt that two nodes began, or that one node began twice', () => {
    const nodes = [...ran, large.begin('t1', 1, 30), large.end('t1', 1, 31, 'aborted')]
    assert.match(complaintsAbout({ nodes }), /R4: t1#1 was begun 2 times: n1\.0, n2\.0/)
    const again = [...ran, small.begin('t1', 1, 30), small.end('t1', 1, 31)]
    assert.match(complaintsAbout({ nodes: again }), /R4: t1#1 was begun 2 times: n1\.0, n1\.0/)
  })

  test('refuses a confirmed task that is missing or has not ended', () => {
    assert.match(complaintsAbout({ last: [] }), /R4: t1 of submit 1 is not in the store/)
    const open = { ...done, status: 'running', output: null, finishedAt: null } as const
    assert.match(complaintsAbout({ last: [open] }), /R4: t1 has not ended: it is running/)
  })

  test('accepts one task or none for an unanswered submit, and refuses two', () => {
    const unanswered = [{ ...submit, taskId: undefined }]
    assert.equal(complaintsAbout({ submits: unanswered }), '')
    assert.equal(complaintsAbout({ submits: unanswered, nodes: [], last: [] }), '')
    const twin = { ...large.begin('t2', 1, 30), number: 1 } as NodeEvent
    const last = [done, { ...done, taskId: 't2', output: { instance: 'n2.0', attempt: 1 } }]
    const nodes = [...ran, twin, large.end('t2', 1, 31)]
    assert.match(complaintsAbout({ submits: unanswered, nodes, last }), /R4: submit 1 made 2 tasks: t1, t2/)
  })

  test('refuses an end that no caller asked for', () => {
    const end = (wish: SubmitNote['wish'], task: Partial<SeenTask>, deadlineMs: number | null = null) =>
      complaintsAbout({ submits: [{ ...submit, wish, deadlineMs }], last: [{ ...done, ...task }], nodes: [] })
    const unwished = /R4: t1, which was to be \w+, is/
    assert.match(end('plain', { status: 'failed', errorCode: 'poison' }), unwished)
    assert.match(end('plain', { status: 'cancelled' }), unwished)
    assert.match(end('refused', {}), unwished)
    assert.match(end('cancelled', { status: 'failed', errorCode: 'node_lost' }), unwished)
    const late = { status: 'failed', errorCode: 'deadline_exceeded' } as const
    assert.match(end('dated', late, 21), unwished)
    assert.equal(end('dated', late, 20), '')
    assert.equal(end('cancelled', { status: 'cancelled' }), '')
  })

  test('refuses an end that no node reported, or that another attempt reported', () => {
    assert.match(complaintsAbout({ nodes: [] }), /R4: t1#1 completed, and n1\.0 never said so/)
    const failed = [ran[0]!, small.end('t1', 1, 20, 'failed')]
    assert.match(complaintsAbout({ nodes: failed }), /R4: t1#1 completed, and n1\.0 never said so/)
    assert.match(
      complaintsAbout({ last: [{ ...done, attempt: 2 }] }),
      /R4: t1#2 completed with the output of attempt 1/,
    )
    const refused = { ...done, status: 'failed', output: null, errorCode: refusedCode } as const
    const submits = [{ ...submit, wish: 'refused' }] as const
    assert.match(
      complaintsAbout({ submits, last: [refused] }),
      /R4: t1#1 failed as refused, and no node said so/,
    )
    const nodes = [ran[0]!, small.end('t1', 1, 20, 'refused'), small.settled('t1', 1, 21)]
    assert.equal(complaintsAbout({ submits, last: [refused], nodes }), '')
  })

  test('refuses two accepted ends, and an accepted end that the store does not have', () => {
    const second = [large.begin('t1', 2, 30), large.end('t1', 2, 31)]
    assert.equal(complaintsAbout({ nodes: [...ran, ...second, large.stale('t1', 2, 32)] }), '')
    assert.match(
      complaintsAbout({ nodes: [...ran, ...second, large.settled('t1', 2, 32)] }),
      /R4: 2 ends of t1 were taken: n1\.0 #1, n2\.0 #2/,
    )
    const later = { ...done, attempt: 2, output: { instance: 'n2.0', attempt: 2 } }
    assert.match(
      complaintsAbout({ nodes: [...ran, ...second], last: [later] }),
      /R4: the end of t1#1 was taken, and the store has attempt 2, completed/,
    )
    const cancelled = { ...done, status: 'cancelled', output: null } as const
    assert.match(
      complaintsAbout({ submits: [{ ...submit, wish: 'cancelled' }], last: [cancelled] }),
      /R4: the end of t1#1 was taken, and the store has attempt 1, cancelled/,
    )
  })

  test('refuses an end that changed after it was shown, and an attempt number that fell', () => {
    assert.match(
      complaintsAbout({ seen: [{ ...done, finishedAt: 19 }] }),
      /R4: t1 had ended as .*, and at last it is/,
    )
    assert.match(complaintsAbout({ seen: [{ ...done, status: 'failed' }] }), /R4: t1 had ended as/)
    const ahead = { ...done, status: 'running', attempt: 2, finishedAt: null } as const
    assert.match(complaintsAbout({ seen: [ahead] }), /R4: t1 was shown at attempt 2 and ended at 1/)
    assert.match(
      complaintsAbout({ seen: [{ ...done, taskId: 't9' }] }),
      /R4: t9 was shown and is not in the store/,
    )
  })
})

describe('rule RL1 of the checker', () => {
  const death = { kind: 'node', name: 'n1.0', t: 100, backAt: 200 } as const
  const [died, later] = [ran[0]!, 2] as const
  const history = (t: number) => ({
    nodes: [died, large.begin('t1', later, t), large.end('t1', later, t + 1)],
    last: [{ ...done, attempt: later, output: { instance: 'n2.0', attempt: later }, finishedAt: t + 2 }],
  })

  test('refuses a task of a dead node that does not move within the time limit', () => {
    assert.equal(complaintsAbout({ ...history(99 + againMs), blows: [death] }), '')
    assert.match(
      complaintsAbout({ ...history(101 + againMs), blows: [death] }),
      /RL1: t1#1 of the dead n1\.0 went on after/,
    )
  })

  test('extends the time limit for a server that was hit at that time, up to a maximum', () => {
    const blows = [death, { kind: 'server', name: 'east', t: 90, backAt: 95 }] as const
    assert.equal(complaintsAbout({ ...history(101 + againMs), blows }), '')
    assert.match(
      complaintsAbout({ ...history(101 + againDisturbedMs), blows }),
      /RL1: t1#1 of the dead n1\.0/,
    )
  })

  test('needs no move for a task that had ended when its node died', () => {
    assert.equal(complaintsAbout({ blows: [death] }), '')
  })
})
