/** What an operator does at a shell: look at queues, jobs, locks and nodes, and act on them. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, test } from 'vitest'
import { open } from '../../index.ts'
import { createPrinter } from '../print.ts'
import { run } from '../run.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-operating-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const database = `sqlite:${join(folder, 'box.db')}`

/** Runs a command line in this process, with what it printed. */
async function signalbox(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const code = await run(args, createPrinter(stdout, stderr, {}))
  return { code, ...written }
}

const at = ['--database', database] as const

test('a job is added, shown, cancelled and retried from the shell', async () => {
  const added = await signalbox(
    'add',
    'mail',
    '--payload',
    '{"to":"ada"}',
    '--tag',
    'a',
    'b',
    ...at,
    '--json',
  )
  assert.deepEqual([added.code, added.err], [0, ''])
  const { id } = JSON.parse(added.out) as { id: string }
  const next = await signalbox('add', 'report', '--after', id, '--limit-key', 'acme', ...at, '--json')
  const nextId = (JSON.parse(next.out) as { id: string }).id

  const shown = await signalbox('jobs', 'show', nextId, ...at)
  assert.match(shown.out, /^state +waiting$/m)
  assert.match(shown.out, new RegExp(`^dependencies +${id} \\(ready\\)$`, 'm'))
  assert.match(shown.out, /^limitKey +acme$/m)
  const json = JSON.parse((await signalbox('jobs', 'show', id, ...at, '--json')).out)
  assert.deepEqual([json.payload, json.tags, json.logs], [{ to: 'ada' }, ['a', 'b'], []])

  assert.equal((await signalbox('jobs', 'cancel', id, ...at)).out, `${id}  cancelled\n`)
  assert.equal((await signalbox('jobs', 'retry', id, ...at)).out, `${id}  ready\n`)
  assert.match((await signalbox('jobs', 'ls', ...at)).out, new RegExp(id))

  for (const [args, code, word] of [
    [['jobs', 'show', 'nope'], 1, 'There is no job'],
    [['add', 'mail', '--payload', '{'], 2, '--payload must be JSON'],
    [['add', 'mail', '--priority', '3000000000'], 2, '--priority must be a whole number from -2147483648'],
    [['add', 'mail', '--delay', 'soon'], 2, '--delay must be milliseconds'],
    [['add', 'mail', '--after', 'nope'], 2, 'no such job'],
    [['jobs', 'shwo', 'x'], 2, 'show'],
    [['quques'], 2, 'queues'],
  ] as const) {
    const refused = await signalbox(...args, ...(args[0] === 'quques' ? [] : at))
    assert.equal(refused.code, code, `${args.join(' ')}: ${refused.err}`)
    assert.ok(refused.err.includes(word), refused.err)
  }
})

test('queues are listed, paused, resumed and limited from the shell', async () => {
  await signalbox('add', 'mail', '--queue', 'post', ...at)
  assert.equal((await signalbox('queues', 'pause', 'post', ...at)).out, 'paused post\n')
  const misspelt = await signalbox('queues', 'pause', 'psot', ...at)
  assert.deepEqual(
    [misspelt.code, misspelt.out],
    [0, 'paused psot (no job has used this queue yet; did you mean post?)\n'],
  )
  assert.deepEqual(JSON.parse((await signalbox('queues', 'resume', 'psot', ...at, '--json')).out), {
    queue: 'psot',
    paused: false,
    isUsed: false,
    nearest: 'post',
  })
  assert.equal(
    (await signalbox('queues', 'limit', 'psot', '--concurrency', '5', ...at)).out,
    'psot: 5 at once (no job has used this queue yet; did you mean post?)\n',
  )
  await signalbox('queues', 'limit', 'psot', '--none', ...at)
  const limit = ['queues', 'limit', 'post', '--concurrency', '5', '--per-key-rate', '100/1m'] as const
  assert.equal((await signalbox(...limit, ...at)).out, 'post: 5 at once, 100 per 60 s per key\n')
  assert.match(
    (await signalbox('queues', 'ls', ...at)).out,
    /^post +1 +0 +0 +0 +0 +\d+ s +paused, 5 at once, 100 per 60 s per key$/m,
  )
  const { items } = JSON.parse((await signalbox('queues', 'ls', ...at, '--json')).out)
  assert.deepEqual(items.find(({ queue }: { queue: string }) => queue === 'post').limits, {
    concurrency: 5,
    rate: null,
    perKey: { concurrency: null, rate: { count: 100, perMs: 60_000 } },
  })
  assert.equal((await signalbox('queues', 'limit', 'post', '--none', ...at)).out, 'post has no limits\n')
  assert.equal((await signalbox('queues', 'resume', 'post', ...at)).out, 'resumed post\n')
  for (const flags of [[], ['--rate', '5'], ['--concurrency', '0'], ['--none', '--rate', '5/1s']] as const) {
    const refused = await signalbox('queues', 'limit', 'post', ...flags, ...at)
    assert.equal(refused.code, 2, refused.err)
  }
})

test('locks and nodes are listed from the shell', async () => {
  await using box = await open(database)
  assert.match((await signalbox('locks', 'ls', ...at)).out, /No lock is held/)
  await box.locks.acquire({ operation: 'pull', resource: 'nginx', node: 'n1' })
  await box.locks.acquire({ operation: 'pull', resource: 'nginx', node: 'n2' })
  assert.match((await signalbox('locks', 'ls', ...at)).out, /^pull +nginx +n1 +\d+ s +\d+ s +1$/m)
  assert.match((await signalbox('nodes', 'ls', ...at)).out, /No node is connected/)
})

test('a command runs once under its key, and again after a failure', async () => {
  const mark = join(folder, 'mark')
  const script = join(folder, 'once.sh')
  writeFileSync(script, `#!/bin/sh\necho x >> ${mark}\nexit $1\n`, { mode: 0o755 })
  assert.equal((await signalbox('once', 'k', ...at, '--', script, '3')).code, 3)
  assert.equal((await signalbox('once', 'k', ...at, '--', script, '0')).code, 0)
  const again = await signalbox('once', 'k', ...at, '--', script, '0')
  assert.deepEqual([again.code, again.out], [0, ''])
  assert.match(again.err, /was done before/)
  assert.equal(execFileSync('wc', ['-l', mark]).toString().trim().split(' ')[0], '2')
  assert.ok(existsSync(mark))
})

test('bash completes commands and flags with the script', async () => {
  const { out } = await signalbox('completion', 'bash')
  const complete = (...words: readonly string[]) =>
    execFileSync('bash', [
      '-c',
      `${out}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})
      COMP_CWORD=${words.length - 1}; _signalbox; echo "\${COMPREPLY[@]}"`,
    ])
      .toString()
      .trim()
      .split(' ')
  assert.deepEqual(complete('signalbox', 'qu'), ['queues'])
  assert.deepEqual(complete('signalbox', 'queues', 'p'), ['pause'])
  assert.ok(complete('signalbox', 'queues', 'limit', '--per').includes('--per-key-rate'))
  assert.match((await signalbox('completion', 'zsh')).out, /^#compdef signalbox/)
  assert.match((await signalbox('completion', 'fish')).out, /complete -c signalbox/)
})

test('a mistake in the arguments is reported before a database is opened or created', async () => {
  const missing = join(folder, 'missing.db')
  for (const args of [
    ['add', 'mail', '--delay', 'soon'],
    ['queues', 'limit', 'mail'],
    ['locks', 'evict', 'pull', 'nginx', '--request-id', 'r1'],
    ['monitor', 'replay'],
    ['workers', 'ls', '--state', 'busy'],
    ['jobs', 'bulk', 'retry', '--search', 'state:dead', '--limit', '0'],
  ]) {
    const { code, err } = await signalbox(...args, '--database', `sqlite:${missing}`)
    assert.equal(code, 2, `${args.join(' ')}: ${err}`)
    assert.ok(!existsSync(missing), args.join(' '))
  }
})
