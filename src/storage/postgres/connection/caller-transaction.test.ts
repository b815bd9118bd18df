import assert from 'node:assert/strict'
import { types } from 'pg'
import { test } from 'vitest'
import {
  ownTypes,
  throughPg,
  throughPostgresJs,
  throughPrisma,
  toParameter,
  toSnakeCase,
} from './caller-transaction.ts'
import type { Runner } from './statement.ts'

test('an array becomes the literal that Postgres reads, whatever its content', () => {
  assert.equal(toParameter(['a', 'b"c', 'd\\e', null, undefined]), '{"a","b\\"c","d\\\\e",NULL,NULL}')
  assert.equal(toParameter([1, 2.5]), '{"1","2.5"}')
  assert.equal(toParameter([]), '{}')
  assert.deepEqual([toParameter('x'), toParameter(null), toParameter(undefined)], ['x', null, null])
})

test('names that a library rewrote are mapped back to ours', () => {
  for (const name of ['windowKey', 'WindowKey', 'window-key', 'window_key']) {
    assert.equal(toSnakeCase(name), 'window_key')
  }
  assert.equal(toSnakeCase('Nr'), 'nr')
})

test('raw rows of postgres.js are read as pg reads them', async () => {
  const columns = [
    { name: 'endsAt', type: 20 },
    { name: 'took', type: 16 },
    { name: 'nr', type: 23 },
    { name: 'holder', type: 25 },
  ]
  const row = ['9007199254740993', 't', '7', ''].map((text) => new TextEncoder().encode(text))
  const answers = Object.assign([row, [null, null, null, null]], { columns })
  const sent: unknown[] = []
  const runner = throughPostgresJs({
    unsafe(sql, values) {
      sent.push(sql, values)
      return { raw: async () => answers }
    },
  })
  const { rows, rowCount } = await runner.query('SELECT $1', [['a']])
  assert.deepEqual(sent, ['SELECT $1', ['{"a"}']])
  assert.equal(rowCount, 2)
  assert.deepEqual(rows, [
    { ends_at: '9007199254740993', took: true, nr: 7, holder: '' },
    { ends_at: null, took: null, nr: null, holder: null },
  ])
})

test('large integers of Prisma are texts, as pg returns them', async () => {
  const runner = throughPrisma({ $queryRawUnsafe: async () => [{ ends_at: 9007199254740993n, nr: 1 }] })
  assert.deepEqual((await runner.query('SELECT 1')).rows, [{ ends_at: '9007199254740993', nr: 1 }])
})

test("a program's type parsers for pg do not affect our answers", async () => {
  const sent: unknown[] = []
  const query = async (config: unknown) => sent.push(config)
  const client = { query } as unknown as Runner
  const runner = throughPg(client)
  assert.equal(throughPg(client), runner)
  await runner.query('SELECT $1', [1])
  assert.deepEqual(sent, [{ text: 'SELECT $1', values: [1], types: ownTypes }])
  const before = [16, 20, 23].map((oid) => types.getTypeParser(oid))
  for (const oid of [16, 20, 23]) types.setTypeParser(oid, (text: string) => `their ${text}`)
  try {
    const read = (oid: number, text: string) =>
      (ownTypes.getTypeParser(oid, 'text') as (text: string) => unknown)(text)
    assert.deepEqual([read(16, 't'), read(16, 'f')], [true, false])
    assert.deepEqual(
      [read(20, '9007199254740993'), read(23, '7'), read(25, 'x')],
      ['9007199254740993', 7, 'x'],
    )
  } finally {
    for (const [index, oid] of [16, 20, 23].entries()) types.setTypeParser(oid, before[index]!)
  }
})
