import assert from 'node:assert/strict'
import type { PoolClient } from 'pg'
import { test } from 'vitest'
import type { Connections } from '../connection/connection.ts'
import type { Statement } from '../connection/statement.ts'
import { Pinned } from './sender.ts'

const good: Statement = { name: 'good', text: 'GOOD' }
const bad: Statement = { name: 'bad', text: 'BAD' }
const savepoint = 'SAVEPOINT signalbox_part'
const release = 'RELEASE SAVEPOINT signalbox_part'
const undo = `ROLLBACK TO ${savepoint}; ${release}`

/** A connection that notes what it is sent, and refuses the bad. */
function aPin(): { readonly pinned: Pinned; readonly sent: string[] } {
  const sent: string[] = []
  const query = async (text: string) => {
    sent.push(text)
    await Promise.resolve()
    if (text === 'BAD') throw new Error('refused')
    return { rows: [], rowCount: 0 }
  }
  const client = { query } as unknown as PoolClient
  const connections = { send: (_: unknown, { text }: Statement) => query(text) } as unknown as Connections
  return { pinned: new Pinned(connections, client), sent }
}

function part(pinned: Pinned, statement: Statement, isKept = true): Promise<unknown> {
  return pinned.allOrNothing(
    (client) => pinned.send(client, statement, []),
    () => isKept,
  )
}

test('a failed part keeps the work done before it', async () => {
  const { pinned, sent } = aPin()
  await pinned.run(good, [])
  await assert.rejects(part(pinned, bad), { message: 'refused' })
  await pinned.run(good, [])
  assert.deepEqual(sent, ['GOOD', savepoint, 'BAD', undo, 'GOOD'])
})

test('parts run one after the other, so undoing one does not affect another', async () => {
  const { pinned, sent } = aPin()
  const outcomes = await Promise.allSettled([part(pinned, bad), part(pinned, good), part(pinned, bad)])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'fulfilled', 'rejected'],
  )
  const failed = [savepoint, 'BAD', undo]
  assert.deepEqual(sent, [...failed, savepoint, 'GOOD', release, ...failed])
})

test('a part that is not to be kept is undone alone, before the commit', async () => {
  const { pinned, sent } = aPin()
  await part(pinned, good)
  await part(pinned, good, false)
  assert.deepEqual(sent, [savepoint, 'GOOD', release, savepoint, 'GOOD', undo])
})

test('effects that wait for the commit run after it', () => {
  const { pinned } = aPin()
  const noted: string[] = []
  pinned.onCommit(() => noted.push('first'))
  pinned.onCommit(() => noted.push('second'))
  assert.deepEqual(noted, [])
  pinned.committed()
  pinned.committed()
  assert.deepEqual(noted, ['first', 'second'])
})
