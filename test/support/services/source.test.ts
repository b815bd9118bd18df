import assert from 'node:assert/strict'
import { test } from 'vitest'
import { findAccount } from './account.ts'
import { chooseServices } from './choice.ts'
import { allowedSources, findSource, type Places, sources } from './source.ts'

/** Sources with or without a server, and a record of the searched ones. */
function somePlaces(having: Partial<Record<keyof Places<string>, string>>): [Places<string>, string[]] {
  const looked: string[] = []
  const look = (place: keyof Places<string>) => {
    looked.push(place)
    return having[place]
  }
  const places: Places<string> = {
    environment: () => look('environment'),
    installed: () => look('installed'),
    embedded: () => look('embedded'),
    apt: async () => look('apt'),
    otherwise: 'no server: set its URL or install it',
  }
  return [places, looked]
}

test('a URL in the environment wins over every server of the machine, and nothing else is probed', async () => {
  const [places, looked] = somePlaces({ environment: 'a url', installed: 'a binary', apt: 'a package' })
  assert.deepEqual(await findSource(places, sources), { from: 'environment', found: 'a url' })
  assert.deepEqual(looked, ['environment'])
})

test('an installed server wins over the embedded one, and that over installing one', async () => {
  const [all] = somePlaces({ installed: 'a binary', embedded: 'from npm', apt: 'a package' })
  assert.deepEqual(await findSource(all, sources), { from: 'installed', found: 'a binary' })

  const [notInstalled, looked] = somePlaces({ embedded: 'from npm', apt: 'a package' })
  assert.deepEqual(await findSource(notInstalled, sources), { from: 'embedded', found: 'from npm' })
  assert.ok(!looked.includes('apt'))
})

test('a package is installed last of all', async () => {
  const [places, looked] = somePlaces({ apt: 'a package' })
  assert.deepEqual(await findSource(places, sources), { from: 'apt', found: 'a package' })
  assert.deepEqual(looked, [...sources])
})

test('when no place has a server one line says what to set or install', async () => {
  const [places] = somePlaces({})
  await assert.rejects(findSource(places, sources), { message: 'no server: set its URL or install it' })
})

test('a source that is not allowed is not searched', async () => {
  const [places, looked] = somePlaces({ environment: 'a url', installed: 'a binary', embedded: 'from npm' })
  assert.equal((await findSource(places, ['embedded'])).from, 'embedded')
  assert.deepEqual(looked, ['embedded'])
})

test('every source is allowed unless the environment names some or forbids apt', () => {
  assert.deepEqual(allowedSources({}), sources)
  assert.deepEqual(allowedSources({ SIGNALBOX_TEST_APT: '0' }), ['environment', 'installed', 'embedded'])
  assert.deepEqual(allowedSources({ SIGNALBOX_TEST_SOURCES: 'apt, embedded' }), ['embedded', 'apt'])
  assert.throws(() => allowedSources({ SIGNALBOX_TEST_SOURCES: 'docker' }), /names "docker"; it takes/)
})

test('all services are required unless the developer selects some', () => {
  assert.deepEqual(chooseServices({}), { wanted: ['postgres', 'mariadb', 'redis'], leftOut: [] })
  assert.deepEqual(chooseServices({ SIGNALBOX_TEST_SERVICES: 'redis, postgres' }), {
    wanted: ['postgres', 'redis'],
    leftOut: ['mariadb'],
  })
  assert.deepEqual(chooseServices({ SIGNALBOX_TEST_SERVICES: 'none' }).wanted, [])
  assert.throws(() => chooseServices({ SIGNALBOX_TEST_SERVICES: 'mysql' }), /names "mysql"; it takes/)
})

test('CI refuses to leave a service out', () => {
  const narrowed = { SIGNALBOX_TEST_SERVICES: 'postgres' }
  assert.throws(() => chooseServices({ ...narrowed, CI: 'true' }), /leaves out mariadb, redis, but in CI/)
  assert.throws(() => chooseServices({ ...narrowed, CI: '1' }), /unset it/)
  assert.deepEqual(chooseServices({ ...narrowed, CI: 'false' }).wanted, ['postgres'])
  assert.equal(chooseServices({ CI: 'true' }).wanted.length, 3)
})

test('the root user starts a server as the first account of the machine', () => {
  const passwd = 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533::/:/bin/false\nmysqlx:x:7:7::/:\n'
  assert.deepEqual(findAccount(passwd, ['mysql', 'nobody']), { uid: 65_534, gid: 65_533 })
  assert.equal(findAccount(passwd, ['postgres']), undefined)
})
