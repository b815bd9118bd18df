/**
 * What the compiler says about common mistakes: it must name the mistake, and not something that is beside the point. Each
 * program below is compiled, and `at` is what the complaint must point at.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { root } from '../house/sources.ts'

interface Mistake {
  readonly title: string
  /** The wrong line. */
  readonly line: string
  /** The text of the line that the compiler's message points at. */
  readonly at: string
  readonly says: readonly RegExp[]
}

const misleading = /JobDefinition<.*is not assignable to (parameter of )?type 'string'|No overload matches/
const head = `import { type Box, defineJob, type RemoteBox } from 'signalbox'
import type { TestBox } from 'signalbox/testing'
import type { Pool } from 'pg'
import type { Pool as MariadbPool } from 'mysql2/promise'
import * as z from 'zod'
export const charge = defineJob('charge', { schema: z.object({ orderId: z.number(), to: z.object({ name: z.string() }) }) })
export const wrong = { orderId: '7', to: { name: 'Ada' } }
export declare const box: Box, remote: RemoteBox, testBox: TestBox, pool: Pool, mariadbPool: MariadbPool
`

const mistakes: readonly Mistake[] = [
  {
    title: 'add with a field of the wrong type points at that field',
    line: `await box.jobs.add(charge, { orderId: '7', to: { name: 'Ada' } })`,
    at: 'orderId',
    says: [/Type 'string' is not assignable to type 'number'/],
  },
  {
    title: 'add with a wrong field at depth points at that field',
    line: `await box.jobs.add(charge, { orderId: 7, to: { name: 5 } })`,
    at: 'name',
    says: [/Type 'number' is not assignable to type 'string'/],
  },
  {
    title: 'add with a missing field names it',
    line: `await box.jobs.add(charge, { to: { name: 'Ada' } })`,
    at: '{ to:',
    says: [/Property 'orderId' is missing/],
  },
  {
    title: 'add with a payload from a variable names the wrong field',
    line: `await box.jobs.add(charge, wrong)`,
    at: 'wrong',
    says: [/Types of property 'orderId' are incompatible/],
  },
  {
    title: 'add with a field that does not exist names it',
    line: `await box.jobs.add(charge, { orderId: 7, to: { name: 'Ada' }, amount: 5 })`,
    at: 'amount',
    says: [/'amount' does not exist in type/],
  },
  {
    title: 'add without a payload says that one is missing',
    line: `await box.jobs.add(charge)`,
    at: 'add',
    says: [/Expected 2-3 arguments, but got 1/],
  },
  {
    title: 'add with a misspelt option names it',
    line: `await box.jobs.add(charge, { orderId: 7, to: { name: 'Ada' } }, { dealyMs: 5 })`,
    at: 'dealyMs',
    says: [/'dealyMs' does not exist/],
  },
  {
    title: 'add on a remote box points at the wrong field',
    line: `await remote.jobs.add(charge, { orderId: '7', to: { name: 'Ada' } })`,
    at: 'orderId',
    says: [/Type 'string' is not assignable to type 'number'/],
  },
  {
    title: 'addMany points at the wrong field',
    line: `await box.jobs.addMany([charge.job({ orderId: '7', to: { name: 'Ada' } })])`,
    at: 'orderId',
    says: [/Type 'string' is not assignable to type 'number'/],
  },
  {
    title: 'a schedule points at the wrong field',
    line: `await box.jobs.schedules.set('n', { cron: '* * * * *', job: charge.job({ orderId: '7', to: { name: 'Ada' } }) })`,
    at: 'orderId',
    says: [/Type 'string' is not assignable to type 'number'/],
  },
  {
    title: 'an assertion about jobs points at the wrong field',
    line: `await assertAdded(testBox, charge, { orderId: '7' })`,
    at: 'orderId',
    says: [/Type 'string' is not assignable to type 'number'/],
  },
  {
    title: 'a channel with a field of another type names the field',
    line: `await box.monitor.subscribe({ name: 'n', channel: { type: 'slack', url: 'https://x.example', atMobiles: ['1'] } })`,
    at: 'atMobiles',
    says: [/'atMobiles' does not exist in type/],
  },
  {
    title: 'a webhook without a secret says so',
    line: `await box.monitor.subscribe({ name: 'n', channel: { type: 'webhook', url: 'https://x.example' } })`,
    at: 'channel',
    says: [/'secret' is missing/],
  },
  {
    title: 'a channel of an unknown type lists the types',
    line: `await box.monitor.subscribe({ name: 'n', channel: { type: 'pigeon', url: 'https://x.example' } })`,
    at: 'type',
    says: [/"dingtalk"/, /"webhook"/],
  },
  {
    title: 'an invalid duration points at the option',
    line: `await box.jobs.add('mail', null, { delayMs: 'soon' })`,
    at: 'delayMs',
    says: [/'Duration'|Type '"soon"' is not assignable/],
  },
  {
    title: 'a pool of pg as tx says what to pass',
    line: `await box.jobs.add('mail', null, { tx: pool })`,
    at: 'tx',
    says: [/A pool is not a transaction\. Hand in the client that pool\.connect\(\) gave you/],
  },
  {
    title: 'a pool of mysql2 as tx says what to pass',
    line: `await box.once.claim('order:7', { tx: mariadbPool })`,
    at: 'tx',
    says: [/A pool is not a transaction\. Hand in the connection that pool\.getConnection\(\) gave you/],
  },
  {
    title: 'a handled definition by its kind says that it belongs in a list',
    line: `box.jobs.worker({ handlers: { charge: charge.handle(() => 1) } })`,
    at: 'charge',
    says: [/A handled definition belongs in a list: write handlers: \[charge\.handle\(…\)\]/],
  },
  {
    title: 'a handled definition by its kind on a remote box says that it belongs in a list',
    line: `remote.jobs.worker({ handlers: { charge: charge.handle(() => 1) } })`,
    at: 'charge',
    says: [/A handled definition belongs in a list/],
  },
]

/** What the compiler says, by the number of the mistake. */
const complaints = new Map<number, string>()
// Below the package, so that `signalbox` is found as a user's program finds it.
let folder: string

describe('the compiler explains mistakes', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(root, 'test/types/.wrong-'))
    writeFileSync(join(folder, 'head.ts'), head)
    const names = 'box, charge, mariadbPool, pool, remote, testBox, wrong'
    for (const [number, { line }] of mistakes.entries()) {
      const imports = `import { ${names} } from './head.ts'; import { assertAdded } from 'signalbox/testing'`
      writeFileSync(join(folder, `${number}.ts`), `${imports}\n${line}\nexport {}\n`)
    }
    const files = mistakes.map((_, number) => `${number}.ts`)
    const compilerOptions = { noUnusedLocals: false, isolatedDeclarations: false, declaration: false }
    const config = { extends: join(root, 'tsconfig.json'), compilerOptions, include: [], files }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const said = await promisify(execFile)(
      join(root, 'node_modules/.bin/tsc'),
      ['-p', 'tsconfig.json', '--pretty', 'false'],
      { cwd: folder },
    ).then(
      ({ stdout }) => stdout,
      (error: { stdout: string }) => error.stdout,
    )
    for (const part of said.split(/\n(?=\S)/)) {
      const number = /^(\d+)\.ts\(/.exec(part)?.[1]
      assert.ok(number !== undefined, part)
      complaints.set(Number(number), `${complaints.get(Number(number)) ?? ''}${part}\n`)
    }
  }, 120_000)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  for (const [number, { title, line, at, says }] of mistakes.entries()) {
    test(title, () => {
      const said = complaints.get(number) ?? ''
      const column = line.indexOf(at) + 1
      assert.match(said, new RegExp(`^${number}\\.ts\\(2,${column}\\): `), `at "${at}"`)
      for (const words of says) assert.match(said, words)
      assert.doesNotMatch(said, misleading)
    })
  }
})
