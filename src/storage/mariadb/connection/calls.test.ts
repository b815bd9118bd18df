import assert from 'node:assert/strict'
import { test } from 'vitest'
import { begin, type Call, commit, PinnedCalls, type Statement } from './calls.ts'
import { isConflict } from './failures.ts'

/** A connection that notes what it is asked. */
function aCall(): { readonly call: Call; readonly sent: string[][] } {
  const sent: string[][] = []
  const call: Call = {
    deadline: Infinity,
    async rows() {
      return []
    },
    async packet(statements: readonly Statement[]) {
      sent.push(statements.map(([sql]) => sql))
      return statements.map(([sql]) => `answer to ${sql}`)
    },
  }
  return { call, sent }
}

test("a call in another call's transaction neither begins nor commits, and finds its answers", async () => {
  const { call, sent } = aCall()
  const answers = await new PinnedCalls(call).run('test', (inner) =>
    inner.packet([begin, ['UPDATE one', []], commit]),
  )
  assert.deepEqual(sent, [['DO 0', 'UPDATE one', 'DO 0']])
  assert.equal(answers[1], 'answer to UPDATE one')
})

test('effects that wait for the commit run after it', () => {
  const calls = new PinnedCalls(aCall().call)
  const noted: string[] = []
  calls.onCommit(() => noted.push('first'))
  calls.onCommit(() => noted.push('second'))
  assert.deepEqual(noted, [])
  calls.committed()
  calls.committed()
  assert.deepEqual(noted, ['first', 'second'])
})

test('a call of several steps is sent again', async () => {
  let looks = 0
  const calls = new PinnedCalls(aCall().call)
  assert.equal(await calls.until('test', async () => (++looks < 3 ? undefined : 'done')), 'done')
})

test('a lock of another transaction ends the call as a conflict, without a wait', async () => {
  const calls = new PinnedCalls(aCall().call)
  await assert.rejects(
    calls.until('test', async () => undefined),
    (error) => isConflict(error),
  )
})
