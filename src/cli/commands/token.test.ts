import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, test } from 'vitest'
import { createTokens } from '../../access/index.ts'
import { openBackend } from '../../storage/open.ts'
import { createPrinter } from '../print.ts'
import { run } from '../run.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-token-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
function freshFile(): string {
  return join(folder, `${files++}.db`)
}

/** Runs a command line in this process, with what it printed. */
async function token(file: string, ...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const code = await run(
    ['token', ...args, '--database', `sqlite:${file}`],
    createPrinter(stdout, stderr, {}),
  )
  return { code, ...written }
}

const create = ['create', '--name', 'ci', '--scope', 'work']

test('create prints only the secret, and it is the secret of a live token', async () => {
  const file = freshFile()
  const { code, out, err } = await token(file, ...create, '--namespace', 'shop')
  assert.deepEqual([code, err], [0, ''])
  assert.match(out, /^sbx_[0-9a-z]{26}_[A-Za-z0-9_-]{43}\n$/)
  await using backend = await openBackend(`sqlite:${file}`, { namespace: 'default', migrate: false })
  const found = await createTokens({ store: backend.tokens }).verify(out.trim())
  assert.deepEqual(
    [found?.name, found?.scope, found?.namespace, found?.expiresAt],
    ['ci', 'work', 'shop', null],
  )
})

test('a secret appears in one answer and in no file', async () => {
  const file = freshFile()
  const { secret, id } = JSON.parse((await token(file, ...create, '--json')).out)
  const random = secret.slice(-43)
  for (const args of [['ls'], ['list'], ['list', '--json'], ['revoke', id], ['revoke', id, '--json']]) {
    const { out, err } = await token(file, ...args)
    assert.equal((out + err).includes(random), false)
    assert.doesNotMatch(out + err, /digest|[0-9a-f]{64}/)
  }
  for (const suffix of ['', '-wal'])
    if (existsSync(file + suffix)) assert.equal(readFileSync(file + suffix, 'latin1').includes(random), false)
})

test('list shows every token and its state', async () => {
  const file = freshFile()
  const make = async (...args: string[]) => JSON.parse((await token(file, ...create, ...args, '--json')).out)
  const [live, gone, short] = [await make(), await make('--namespace', '*'), await make('--expires', '1')]
  await token(file, 'revoke', gone.id)
  const { out } = await token(file, 'list')
  const rows = out
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/))
  assert.deepEqual(
    rows.map(([id, , namespace, state]) => [id, namespace, state]),
    [
      ['ID', 'NAMESPACE', 'STATE'],
      [live.id, 'default', 'live'],
      [gone.id, '*', 'revoked'],
      [short.id, 'default', 'expired'],
    ],
  )
  assert.equal(short.expiresAt, short.createdAt + 1)
  const { items } = JSON.parse((await token(file, 'list', '--namespace', '*', '--json')).out)
  assert.deepEqual(
    items.map(({ id, live: isLive }: { id: string; live: boolean }) => [id, isLive]),
    [[gone.id, false]],
  )
})

test('a token for nodes needs no scope, and list shows its nodes', async () => {
  const file = freshFile()
  const { code, out } = await token(
    file,
    'create',
    '--name',
    'a',
    '--node',
    'gpu-7',
    '--node',
    'gpu-8',
    '--json',
  )
  assert.equal(code, 0)
  const { scope, nodes } = JSON.parse(out)
  assert.deepEqual([scope, nodes], ['work', ['gpu-7', 'gpu-8']])
  await token(file, ...create)
  const rows = (await token(file, 'list')).out
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/))
  assert.deepEqual(
    rows.map(([, scope, , , , nodes]) => [scope, nodes]),
    [
      ['SCOPE', 'NODES'],
      ['work', 'gpu-7,gpu-8'],
      ['work', '-'],
    ],
  )
})

test('revoke ends a token, and a second revoke changes nothing', async () => {
  const file = freshFile()
  const { id } = JSON.parse((await token(file, ...create, '--json')).out)
  assert.deepEqual(await token(file, 'revoke', id), { code: 0, out: `revoked ${id} ci\n`, err: '' })
  const [first, second] = [
    await token(file, 'revoke', id, '--json'),
    await token(file, 'revoke', id, '--json'),
  ]
  assert.deepEqual(first, second)
  const missing = await token(file, 'revoke', '01k9z3v8qe0m4t9wq3rb5c7xkd')
  assert.equal(missing.code, 1)
  assert.match(missing.err, /^signalbox: There is no token "01k9z3v8qe0m4t9wq3rb5c7xkd"\.[^\n]*\n$/)
})

test('a secret pasted as an id is not printed again', async () => {
  const file = freshFile()
  const secret = (await token(file, ...create)).out.trim()
  const { code, out, err } = await token(file, 'revoke', secret)
  assert.deepEqual([code, out], [2, ''])
  assert.match(err, /secret of a token, not its id/)
  assert.equal(err.includes(secret.slice(-43)), false)
})

test('reading commands create no database', async () => {
  const file = freshFile()
  for (const args of [['list'], ['revoke', 'x']]) {
    const { code, out, err } = await token(file, ...args)
    assert.deepEqual([code, out], [1, ''])
    assert.match(err, /has no Signalbox tables, so it has no tokens\.\n$/)
  }
  assert.equal(existsSync(file), false)
})

test('every mistake in the command line is one clear line and exit code 2', async () => {
  const file = freshFile()
  for (const [args, message] of [
    [['nope'], /unknown command 'nope'/],
    [['create'], /required option '--name <text>' not specified/],
    [['create', '--name', 'x'], /required option '--scope <scope>' not specified/],
    [
      ['create', '--name', 'x', '--scope', 'root'],
      /'root' is invalid\. Allowed choices are read, work, admin/,
    ],
    [['create', '--name', '', '--scope', 'read'], /token\.name must be text/],
    [['create', '--name', 'x', '--scope', 'admin', '--node', 'a'], /has the scope "work", not "admin"/],
    [[...create, '--expires', 'soon'], /--expires must be milliseconds/],
    [[...create, '--namespace', ''], /token\.namespace must be text/],
    [['revoke'], /missing required argument 'id'/],
    [['revoke', 'a', 'b'], /too many arguments/],
    [['list', '--name', 'x'], /unknown option '--name'/],
  ] as const) {
    const { code, out, err } = await token(file, ...args)
    assert.equal(code, 2, err)
    assert.equal(out, '')
    assert.match(err, message)
    assert.match(err, /^signalbox: [^\n]+\n$/)
  }
})

test('help shows the usage', async () => {
  for (const args of [['--help'], ['create', '--help'], ['list', '--help'], ['revoke', '--help']]) {
    const printed = { out: '' }
    const printer = createPrinter({ write: (text) => (printed.out += text) }, { write: () => {} }, {})
    assert.equal(await run(['token', ...args], printer), 0)
    assert.match(printed.out, /Examples:\n {2}signalbox token /)
  }
})
