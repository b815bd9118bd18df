import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SQLInputValue } from 'node:sqlite'
import { test } from 'vitest'
import type { ClaimedRecord, ClaimRequest, NewJob, Verdict } from '../../../jobs/index.ts'
import { openWriter, parseLocation } from '../connection/connection.ts'
import { openSqlite } from '../index.ts'
import { Gate } from './write-queue.ts'
import { createGateWriter } from './writer.ts'
import type { Operation, WriteCall, Writes } from './writes.ts'

/** A writer over a store with tables, and the statements that it made. */
async function setUp() {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-ahead-'))
  const url = `sqlite:${join(folder, 'store.db')}?synchronous=normal`
  await (await openSqlite(url, { namespace: 'default', migrate: true })).close()
  const statements: string[] = []
  const open = () => {
    const connection = openWriter(parseLocation(url))
    const prepare = connection.prepare.bind(connection)
    connection.prepare = (sql) => {
      statements.push(sql)
      return prepare(sql)
    }
    const rows = connection.rows.bind(connection)
    connection.rows = <Row extends readonly unknown[]>(sql: string, ...params: SQLInputValue[]) => {
      statements.push(sql)
      return rows<Row>(sql, ...params)
    }
    return connection
  }
  const writer = createGateWriter(new Gate({ open }))
  const ask = <Name extends Operation>(operation: Name, ...args: Parameters<Writes[Name]>) =>
    writer.write({ operation, namespace: 'default', args } as WriteCall<Name>)
  return {
    add: (...jobs: NewJob[]) => ask('add', jobs),
    claim: (more: Partial<ClaimRequest> = {}) =>
      ask('claim', { queues: ['mail'], kinds: null, workerId: 'w', limit: 1, leaseMs: 30_000, ...more }),
    settle: (...verdicts: Verdict[]) => ask('settle', verdicts),
    pause: () => ask('pause', 'mail'),
    limit: () => ask('setLimits', 'mail', { concurrency: 5, rate: null, perKey: null }),
    /** The statements since the last time. */
    made: () => statements.splice(0),
    /** How many statements since the last time have this in them. */
    counted(part: string) {
      const count = statements.filter((sql) => sql.includes(part)).length
      statements.length = 0
      return count
    },
    async [Symbol.asyncDispose]() {
      await writer.close()
      rmSync(folder, { recursive: true })
    },
  }
}

function aJob(id: string, priority = 0): NewJob {
  const rest = {
    payload: 'null',
    uniqueKey: null,
    maxAttempts: 5,
    backoff: null,
    timeoutMs: null,
    meta: null,
  }
  return { id, queue: 'mail', kind: 'send', due: { runAt: 1 }, priority, ...rest }
}

function verdict({ id, token }: ClaimedRecord, state: Verdict['state'] = 'completed'): Verdict {
  const rest = {
    attempt: 1,
    handBackCount: 0,
    snoozeCount: 0,
    delayMs: 0,
    ranMs: null,
    result: null,
    error: null,
  }
  return { jobId: id, token, state, ...rest }
}

const idsOf = (answers: readonly (readonly ClaimedRecord[] | undefined)[]) =>
  answers.map((jobs) => jobs!.map(({ id }) => id))
const lineRead = 'ORDER BY priority DESC'

test('claims of one round look once, and each gets its own jobs in the order they came', async () => {
  await using set = await setUp()
  await set.add(...['a', 'b', 'c', 'd', 'e'].map((id) => aJob(id)))
  await set.claim({ kinds: ['none'] })
  set.counted('')
  const claims = [{ workerId: 'one' }, { limit: 2, workerId: 'two' }, { leaseMs: 5_000 }, { limit: 3 }, {}]
  const answers = await Promise.all(claims.map((more) => set.claim(more)))
  assert.deepEqual(idsOf(answers), [['a'], ['b', 'c'], ['d'], ['e'], []])
  assert.equal(set.counted(lineRead), 1)
  assert.deepEqual(
    answers[0]!.map(({ workerId }) => workerId),
    ['one'],
  )
  const nonces = answers.flat().map((job) => job!.token.split('.')[1])
  assert.equal(new Set(nonces).size, 4, 'whoever knows a token of theirs does not know those of others')
})

test('claims that ask for different jobs do not take the same one', async () => {
  await using set = await setUp()
  await set.add(...['a', 'b', 'c'].map((id) => aJob(id)))
  const mixed = [{}, { kinds: ['send'] }, {}, { kinds: ['send'] }]
  const answers = await Promise.all(mixed.map((more) => set.claim(more)))
  assert.deepEqual(idsOf(answers), [['a'], ['b'], ['c'], []])
})

test('what is added, brought back or paused between two claims of one round counts for the second', async () => {
  await using set = await setUp()
  await set.add(aJob('a'), aJob('b'))
  const [[held]] = (await Promise.all([set.claim(), set.claim({ kinds: ['other'] })])) as [
    ClaimedRecord[],
    unknown,
  ]
  const brought = { ...verdict(held!, 'ready'), attempt: 0 }
  const [, first, , second] = await Promise.all([
    set.settle(brought),
    set.claim(),
    set.add(aJob('urgent', 10)),
    set.claim(),
    set.pause(),
  ])
  assert.deepEqual(idsOf([first, second]), [['a'], ['urgent']])
  const [third] = await Promise.all([set.claim()])
  assert.deepEqual(third, [])
})

test('a job that is brought back between two claims goes before what was read for both', async () => {
  await using set = await setUp()
  await set.add(aJob('first', 5), aJob('b'), aJob('c'))
  const [held] = (await set.claim())!
  const [one, , two] = await Promise.all([
    set.claim(),
    set.settle({ ...verdict(held!, 'ready'), attempt: 0 }),
    set.claim(),
  ])
  assert.deepEqual(idsOf([one, two]), [['b'], ['first']])
})

test('verdicts of one round are written together; each caller learns of its own', async () => {
  await using set = await setUp()
  await set.add(...['a', 'b', 'c', 'd'].map((id) => aJob(id)))
  const jobs = (await set.claim({ limit: 3 }))!
  set.counted('')
  const [a, b, c] = jobs.map((job) => verdict(job))
  const answers = await Promise.all([
    set.settle(a!),
    set.settle({ ...b!, token: '1.forged' }, c!),
    set.claim(),
    set.settle(a!),
    set.settle(b!),
  ])
  assert.equal(set.counted('INSERT INTO job_history'), 1)
  assert.deepEqual(answers.slice(0, 2), [[true], [false, true]])
  assert.deepEqual(idsOf([answers[2] as ClaimedRecord[]]), [['d']])
  assert.deepEqual(answers.slice(3), [[false], [true]], 'a wrong token spoils nobody else’s right one')
})

test('nothing that a claim or a verdict asks is prepared anew by SQLite each time, as a bare LIMIT would be', async () => {
  await using set = await setUp()
  await set.add(aJob('1'), aJob('2'))
  const [open] = (await set.claim())!
  await set.settle(verdict(open!))
  await set.limit()
  const [limited] = (await set.claim())!
  await set.settle(verdict(limited!))
  const bare = set.made().filter((sql) => /LIMIT \?\d+(?! \+ 0)/.test(sql))
  assert.deepEqual(bare, [])
})
