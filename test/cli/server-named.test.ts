/** With SIGNALBOX_URL set, a command acts on that server or refuses; it makes no file beside the caller. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, test } from 'vitest'
import { createServer, type Server } from '../../src/http/server/index.ts'
import { type Box, open } from '../../src/index.ts'
import { createWorkplace } from './command.ts'

const secret = 'canary-0123456789abcdef0123456789abcdef'
let box: Box
let server: Server
let env: Record<string, string>

beforeAll(async () => {
  box = await open('memory:')
  server = createServer({ box, port: 0, bootstrap: [secret] })
  const { url } = await server.listen()
  env = { SIGNALBOX_URL: url, SIGNALBOX_TOKEN: secret }
})

afterAll(async () => {
  await server.close()
  await box.close()
})

test('tokens are created, listed and revoked on the server that SIGNALBOX_URL names', async () => {
  using place = createWorkplace()
  const made = await place.call(['token', 'create', '--name', 'ci', '--scope', 'work', '--json'], env)
  assert.deepEqual([made.code, made.err], [0, ''])
  const { id, secret: own } = JSON.parse(made.out)
  const listed = await place.call(['token', 'ls'], env)
  assert.match(listed.out, new RegExp(`^ID +SCOPE .*\\n${id} +work +default +live +never +- +ci\\n$`))
  // The token counts at that server, and may not make others.
  const refused = await place.call(['token', 'ls'], { ...env, SIGNALBOX_TOKEN: own })
  assert.equal(refused.code, 1, refused.err)
  const revoked = await place.call(['token', 'revoke', id], env)
  assert.equal(revoked.out, `revoked ${id} ci\n`)
  assert.equal((await place.call(['token', 'revoke', 'nope', '--json'], env)).code, 1)
  assert.deepEqual(readdirSync(place.folder), [])
})

test('creating the first token says that the server is now closed, and where to continue', async () => {
  using place = createWorkplace()
  await using own = await open(`sqlite:${place.folder}/box.db`)
  await using opened = createServer({ box: own, port: 0 })
  const { url } = await opened.listen()
  const there = { SIGNALBOX_URL: url }
  assert.equal((await place.call(['token', 'ls'], there)).out, 'There are no tokens.\n')
  const first = await place.call(['token', 'create', '--name', 'ci', '--scope', 'work'], there)
  assert.equal(first.code, 0)
  assert.match(
    first.err,
    /requires a token, and this token cannot create others\. .*--scope admin --database URL\n$/,
  )
  const refused = await place.call(['token', 'ls'], there)
  assert.equal(refused.code, 1)
  assert.match(refused.err, /on a server with an admin token, or on its database \(--database\)/)
  // As the message says: the database is the way in.
  const create = ['token', 'create', '--name', 'ops', '--scope', 'admin', '--database', 'sqlite:box.db']
  const { out, err } = await place.call(create, there)
  assert.equal(err, '')
  assert.equal((await place.call(['token', 'ls'], { ...there, SIGNALBOX_TOKEN: out.trim() })).code, 0)
})

test('migrate, bench and reseal need a database, so they refuse when only a server is named', async () => {
  using place = createWorkplace()
  for (const args of [
    ['migrate', 'up'],
    ['migrate', 'status'],
    ['migrate', 'sql'],
    ['bench', 'jobs', '--seconds', '1'],
    ['monitor', 'reseal'],
  ]) {
    const { code, out, err } = await place.call(args, env)
    assert.deepEqual([code, out], [2, ''], args.join(' '))
    assert.match(err, /SIGNALBOX_URL names a server, and [\w ]+ works on a database\. .*--database/)
  }
  assert.deepEqual(readdirSync(place.folder), [])
  // A named database wins over everything in the environment.
  const named = await place.call(['migrate', 'up', '--database', 'sqlite:own.db'], env)
  assert.equal(named.code, 0, named.err)
  assert.ok(readdirSync(place.folder).includes('own.db'))
})

test('no command that reads or acts on a server creates a file', async () => {
  using place = createWorkplace()
  const reads = [
    ...[
      ['jobs', 'ls'],
      ['queues', 'ls'],
      ['locks', 'ls'],
      ['nodes', 'ls'],
      ['tasks', 'ls'],
    ],
    ...[['schedules', 'ls'], ['token', 'ls'], ['top', '--once'], ['doctor']],
    ...[
      ['queues', 'resume', 'mail'],
      ['locks', 'evict', 'a', 'b'],
      ['tasks', 'cancel', 'x'],
    ],
    ...[
      ['nodes', 'cordon', 'n'],
      ['jobs', 'cancel', 'x'],
      ['token', 'revoke', 'x'],
      ['migrate', 'status'],
    ],
  ]
  const writes = [
    ...[
      ['add', 'mail'],
      ['queues', 'pause', 'mail'],
      ['queues', 'limit', 'mail', '--concurrency', '2'],
    ],
    ['schedules', 'set', 's', '--every', '1h', '--kind', 'k'],
    ...[
      ['once', 'k', '--', 'true'],
      ['lock', 'a', 'b', '--', 'true'],
    ],
  ]
  const run = async (args: readonly string[], own: Record<string, string>) => {
    const startsProcess = args.includes('--')
    const { err } = startsProcess ? await place.run(args, own) : await place.call(args, own)
    assert.deepEqual(readdirSync(place.folder), [], `${args.join(' ')}: ${err}`)
  }
  for (const args of reads) await run(args, {})
  for (const args of writes) await run(args, env)
})

test('an empty SIGNALBOX_URL is reported as the mistake, and no file is created', async () => {
  using place = createWorkplace()
  for (const args of [
    ['jobs', 'ls'],
    ['add', 'mail'],
    ['migrate', 'up'],
    ['token', 'create', '--name', 'ci', '--scope', 'work'],
  ]) {
    const { code, err } = await place.call(args, { SIGNALBOX_URL: '' })
    assert.equal(code, 2, args.join(' '))
    assert.match(err, /^signalbox: SIGNALBOX_URL is empty\. Set it to .*, or unset it\.\n$/)
  }
  assert.deepEqual(readdirSync(place.folder), [])
})
