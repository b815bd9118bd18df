/** Doctor on a real store and a real server: what it finds, how it ends, and that it changes nothing. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, test, vi } from 'vitest'
import { createTokens } from '../../access/index.ts'
import { createServer } from '../../http/server/index.ts'
import { open } from '../../index.ts'
import type { Finding } from '../doctor/judging.ts'
import { createPrinter } from '../print.ts'
import { run } from '../run.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-doctor-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Answer {
  readonly ok: number
  readonly warning: number
  readonly problem: number
  readonly findings: readonly Finding[]
}

async function doctor(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const code = await run(['doctor', ...args], createPrinter(stdout, stderr, {}))
  const answer = args.includes('--json') ? (JSON.parse(written.out) as Answer) : undefined
  return { code, ...written, findings: answer?.findings ?? [], answer }
}

const found = (findings: readonly Finding[], level: string) =>
  findings.filter((one) => one.level === level).map(({ check, subject }) => `${check} ${subject}`)

test('doctor finds an empty place healthy and creates nothing', async () => {
  const file = join(folder, 'none.db')
  const { code, out, err } = await doctor('--database', `sqlite:${file}`)
  assert.deepEqual([code, err], [0, ''])
  assert.match(out, /^ok +schema: .*There is no schema yet/m)
  assert.match(out, /^0 problems, 0 warnings, \d+ well$/m)
  assert.ok(!existsSync(file))
  const strict = await doctor('--database', `sqlite:${file}`, '--no-migrate')
  assert.equal(strict.code, 1)
  assert.match(strict.out, /^problem +schema: .*signalbox migrate up/m)
})

test('doctor warns of weak settings, dead jobs, paused queues and endless tokens; only --strict fails', async () => {
  const database = `sqlite:${join(folder, 'weak.db')}?synchronous=normal`
  await using box = await open(database)
  await box.jobs.add('mail', {}, { queue: 'post', maxAttempts: 1 })
  const [claimed] = await box.jobs.claim({ queues: ['post'], workerId: 'w' })
  await box.jobs.nack(claimed!, { error: new Error('no') })
  await box.jobs.add('mail', {}, { queue: 'shut' })
  await box.jobs.pause('shut')
  const tokens = createTokens({ store: box.backend.tokens })
  const { id, secret } = await tokens.create({ name: 'ops', scope: 'admin', namespace: '*' })

  const { code, answer, findings, out } = await doctor('--database', database, '--json')
  assert.equal(code, 0)
  assert.equal(answer!.problem, 0)
  assert.deepEqual(found(findings, 'warning'), [
    `durability ${database.split('?')[0]}`,
    `tokens ops (${id})`,
    'queues post',
    'queues shut',
  ])
  assert.ok(!out.includes(secret))
  assert.ok(findings.every(({ level, advice }) => (level === 'ok') === (advice === null)))
  assert.equal((await doctor('--database', database, '--strict')).code, 1)
  assert.equal((await box.jobs.stats()).find(({ queue }) => queue === 'post')?.dead, 1)
})

test('an unusable store and a wrong configuration are problems and end with 1', async () => {
  const gone = await doctor(
    '--database',
    'postgres://me:hush@127.0.0.1:1/x',
    '--redis',
    'redis://127.0.0.1:1',
  )
  assert.equal(gone.code, 1)
  assert.match(gone.out, /^problem +store: postgres:\/\/127\.0\.0\.1:1\/x: .*ECONNREFUSED/m)
  assert.match(gone.out, /^problem +store: redis:\/\/127\.0\.0\.1:1: /m)
  assert.ok(!gone.out.includes('hush'))
  const wrong = await doctor('--port', 'http', '--grace', 'never')
  assert.deepEqual([wrong.code, wrong.err], [1, ''])
  assert.equal(wrong.out.match(/^problem +configuration/gm)?.length, 2)
  const both = await doctor('--url', 'http://127.0.0.1:1', '--database', 'sqlite:x')
  assert.equal(both.code, 2)
})

test('doctor inspects a server by its own reports, and a missing server is a problem', async () => {
  await using box = await open(`sqlite:${join(folder, 'served.db')}`)
  await using server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  const { code, findings } = await doctor('--url', url, '--json')
  assert.equal(code, 0, JSON.stringify(findings))
  assert.deepEqual(
    findings.map(({ level, check }) => `${level} ${check}`),
    ['node', 'version', 'ready', 'durability', 'tokens', 'queues', 'clocks'].map((check) => `ok ${check}`),
  )
  const { secret } = await createTokens({ store: box.backend.tokens }).create({
    ...{ name: 'look', scope: 'read', namespace: 'default' },
  })
  vi.stubEnv('SIGNALBOX_TOKEN', `${secret}x`)
  const refused = await doctor('--url', url)
  vi.unstubAllEnvs()
  assert.equal(refused.code, 1)
  assert.match(refused.out, /^problem +server: .*SIGNALBOX_TOKEN/m)
  assert.ok(!refused.out.includes(secret))
  const gone = await doctor('--url', 'http://127.0.0.1:1')
  assert.equal(gone.code, 1)
  assert.match(gone.out, /http:\/\/127\.0\.0\.1:1/)
})

test('doctor asks a server whether its channel secrets are sealed', async () => {
  const database = `sqlite:${join(folder, 'channels.db')}`
  const secretKey = Buffer.alloc(32, 1).toString('base64')
  const channel = { type: 'slack', url: 'https://hooks.slack.com/services/hush' } as const
  const secretsFound = async (options: { readonly secretKey?: string }, name: string) => {
    await using box = await open(database, options)
    await using server = createServer({ box, port: 0 })
    const { url } = await server.listen()
    await box.monitor.subscribe({ name, channel })
    const { findings } = await doctor('--url', url, '--json')
    await box.monitor.unsubscribe((await box.monitor.subscriptions()).find((one) => one.name === name)!.id)
    return findings.filter(({ check }) => check === 'secrets').map(({ level }) => level)
  }
  assert.deepEqual(await secretsFound({ secretKey }, 'sealed'), ['ok'])
  assert.deepEqual(await secretsFound({}, 'plain'), ['warning'])
})
