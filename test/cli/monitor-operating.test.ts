/** The monitor on the command line: what died, sending it again, why, and the key that seals channels. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'signalbox'
import { test } from 'vitest'
import { within } from '../support/deadline.ts'
import { startReceiver } from '../support/robots/index.ts'
import { createWorkplace, type Workplace } from './command.ts'

const allowPrivate = ['127.0.0.0/8']
const slot = { source: 'courts', timeSlot: '18:00' }
const secret = 'Canary9Canary9Canary9'

async function ok(place: Workplace, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<string> {
  const { code, out, err } = await place.call(args, env)
  assert.deepEqual([code, err], [0, ''], args.join(' '))
  return out
}

/** A database with dead notifications of two subscriptions. */
async function leaveDead(place: Workplace, options: { readonly secretKey?: string } = {}): Promise<void> {
  await using robot = await startReceiver({ secret })
  robot.misbehave('500')
  await using box = await open(`sqlite:${join(place.folder, 'signalbox.db')}`, { allowPrivate, ...options })
  for (const [name, venueId] of [
    ['front desk', 'north'],
    ['back office', 'south'],
  ] as const) {
    const channel = { type: 'webhook' as const, url: `${robot.url}?${venueId}`, secret }
    await box.monitor.subscribe({ name, match: { venueId }, notifyNew: true, maxRetries: 0, channel })
  }
  const venues = ['north', 'south'].map((venueId) => ({ venueId, state: { free: 2 } }))
  await box.monitor.report({ taskId: 't1', ...slot, observedAt: Date.now(), venues })
  await using sender = box.monitor.sender({ pollMs: 20 })
  await sender.start()
  const areDead = async () => {
    while ((await box.monitor.notifications({ status: 'dead' })).items.length < 2)
      await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await within(15_000, 'the failures', areDead())
}

test('dead notifications are listed with subscription and reason, and replayed by id or all at once', async () => {
  using place = createWorkplace()
  await leaveDead(place)
  const table = await ok(place, ['monitor', 'notifications', '--state', 'dead'])
  const [head, ...rows] = table.trimEnd().split('\n')
  assert.match(head!, /^ID +STATE +SUBSCRIPTION +SUBJECT/)
  assert.equal(rows.length, 2)
  for (const name of ['front desk', 'back office'])
    assert.equal(rows.filter((row) => row.includes(name)).length, 1, table)
  const list = async (...flags: readonly string[]) =>
    JSON.parse(await ok(place, ['monitor', 'notifications', '--json', ...flags])).items
  const [office] = await list('--subscription', 'back office')
  assert.deepEqual([office.status, office.subscription, office.to], ['dead', 'back office', { free: 2 }])

  const doctor = await place.call(['doctor', '--json'])
  const findings: { check: string; subject: string; text: string }[] = JSON.parse(doctor.out).findings
  assert.deepEqual(
    findings
      .filter(({ check }) => check === 'notifications')
      .map(({ subject, text }) => [subject, text])
      .sort(),
    [
      ['back office', '1 of its notifications is dead.'],
      ['front desk', '1 of its notifications is dead.'],
    ],
  )

  await ok(place, ['monitor', 'replay', office.id])
  assert.equal((await list('--state', 'dead')).length, 1)
  const twice = await place.call(['monitor', 'replay', office.id, '01k9z3v8qe0m4t9wq3rb5c7xkd', '--json'])
  assert.equal(twice.code, 1)
  assert.deepEqual(
    JSON.parse(twice.out).refused.map(({ code }: { code: string }) => code),
    ['conflict', 'not_found'],
  )
  assert.equal(await ok(place, ['monitor', 'replay', '--dead']), '1 notification is queued again\n')
  assert.deepEqual(await list('--state', 'dead'), [])
  for (const wrong of [[], ['--dead', 'x'], ['x', '--subscription', 'y']])
    assert.equal((await place.call(['monitor', 'replay', ...wrong])).code, 2, wrong.join(' '))
})

test('notifications, replay and explain also act on a server', async () => {
  using place = createWorkplace()
  await leaveDead(place)
  await using server = await place.serve(['--log-level=error', '--allow-private=127.0.0.0/8'])
  const env = { SIGNALBOX_URL: server.url }
  const { items } = JSON.parse(await ok(place, ['monitor', 'notifications', '--json'], env))
  assert.equal(items.length, 2)
  const flags = ['replay', '--dead', '--subscription', 'front desk', '--json']
  assert.equal(JSON.parse(await ok(place, ['monitor', ...flags], env)).replayed.length, 1)
  const why = JSON.parse(await ok(place, ['monitor', 'explain', 'courts', '18:00', 'north', '--json'], env))
  assert.deepEqual(why.present.state, { free: 2 })
})

test('explain shows in a few lines why subscribers were notified of a subject, with whole states', async () => {
  using place = createWorkplace()
  await leaveDead(place)
  const text = await ok(place, ['monitor', 'explain', 'courts', '18:00', 'north'])
  assert.match(text, /^State: \{"free":2\} \(changed /)
  assert.match(text, /^front desk +owed +\{"free":2\}/m)
  assert.match(text, /new +- +\{"free":2\} +front desk: dead/)
  assert.equal(
    await ok(place, ['monitor', 'explain', 'courts', '18:00', 'nowhere']),
    'It was never reported.\n',
  )
})

test('reseal seals plain channels, doctor shows how secrets are stored, and no output has the key', async () => {
  using place = createWorkplace()
  await leaveDead(place)
  const secretsOf = async (env: NodeJS.ProcessEnv) => {
    const { out } = await place.call(['doctor', '--json'], env)
    const { findings } = JSON.parse(out) as { findings: { check: string; level: string; text: string }[] }
    return findings.filter(({ check }) => check === 'secrets').map(({ level, text }) => `${level}: ${text}`)
  }
  assert.match((await secretsOf({})).join(), /^warning: There is no key, so .* plain text .*2 subscriptions/)
  const bare = await place.run(['monitor', 'reseal'])
  assert.equal(bare.code, 2)
  assert.match(bare.err, /SIGNALBOX_SECRET_KEY/)

  const key = randomBytes(32).toString('base64')
  const env = { SIGNALBOX_SECRET_KEY: key }
  assert.match(
    (await secretsOf(env)).join(),
    /^warning: .*2 subscriptions are plain text .*stored before there was a key/,
  )
  assert.equal(
    await ok(place, ['monitor', 'reseal'], env),
    '2 encrypted with the first key, 0 already encrypted with it, 0 could not be decrypted\n',
  )
  assert.match((await secretsOf(env)).join(), /^ok: .*encrypted/)
  const [problem] = (await secretsOf({})).filter((text) => text.startsWith('problem'))
  assert.match(problem!, /"(front desk|back office)".*sealed with the key/)

  const rotated = join(place.folder, 'keys')
  const newer = randomBytes(32).toString('hex')
  writeFileSync(rotated, `# the first seals\n${newer}\n${key}\n`, { mode: 0o600 })
  const flags = ['monitor', 'reseal', '--secret-key-file', rotated, '--json']
  assert.deepEqual(JSON.parse(await ok(place, flags)), { resealed: 2, current: 0, unreadable: [] })
  const old = await place.run(['monitor', 'reseal', '--json'], env)
  assert.equal(old.code, 1)
  assert.equal(JSON.parse(old.out).unreadable.length, 2)

  const printed = await place.run(['config', 'print', '--json'], env)
  assert.equal(JSON.parse(printed.out).settings.secretKey.value, '(set)')
  const wrong = await place.run(['serve', '--port=0'], { SIGNALBOX_SECRET_KEY: `${key},${newer.slice(2)}` })
  assert.equal(wrong.code, 2)
  assert.match(wrong.err, /SIGNALBOX_SECRET_KEY must be a key of 32 bytes.*key 2 of 2/)
  for (const said of [printed, wrong, old, bare])
    for (const one of [key, newer]) assert.ok(!`${said.out}${said.err}`.includes(one.slice(2, 20)))
  const shared = join(place.folder, 'shared')
  writeFileSync(shared, `${newer}\n`, { mode: 0o644 })
  assert.match((await place.call(['config', 'print', '--secret-key-file', shared])).err, /chmod 600/)
  const remote = await place.call(['monitor', 'reseal'], { ...env, SIGNALBOX_URL: 'http://127.0.0.1:1' })
  assert.equal(remote.code, 2)
})

test('reseal seals in every namespace, or in the given one', async () => {
  using place = createWorkplace()
  const channel = { type: 'slack' as const, url: `https://hooks.slack.com/services/${secret}` }
  for (const namespace of ['default', 'branch']) {
    await using box = await open(`sqlite:${join(place.folder, 'signalbox.db')}`, { namespace })
    await box.monitor.subscribe({ name: 'desk', channel })
  }
  const env = { SIGNALBOX_SECRET_KEY: randomBytes(32).toString('base64') }
  const reseal = async (...flags: readonly string[]) => {
    const { resealed, current } = JSON.parse(await ok(place, ['monitor', 'reseal', '--json', ...flags], env))
    return [resealed, current]
  }
  assert.deepEqual(await reseal('--namespace', 'branch'), [1, 0])
  assert.deepEqual(await reseal(), [1, 1])
})

test('a server with a key reports at its start that it seals channel secrets, and does so', async () => {
  using place = createWorkplace()
  const key = randomBytes(32).toString('base64')
  await using server = await place.serve(['--log-level=error'], { SIGNALBOX_SECRET_KEY: key })
  assert.match(server.out(), /^Channel secrets: sealed in the database$/m)
  const body = {
    name: 'desk',
    channel: { type: 'slack' as const, url: `https://hooks.slack.com/services/${secret}` },
  }
  const reply = await fetch(`${server.url}/v1/monitor/subscriptions`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
  })
  assert.equal(reply.status, 201)
  await using box = await open(`sqlite:${join(place.folder, 'signalbox.db')}`)
  const { subscriptions } = await box.backend.monitor.rules()
  assert.ok(!subscriptions[0]!.channel.includes(secret))
})
