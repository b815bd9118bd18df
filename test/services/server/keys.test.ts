/** Idempotency-Keys that are stored together with their effect, where effect and key are in different stores. */
import assert from 'node:assert/strict'
import type { OpenOptions } from 'signalbox'
import { describe, test } from 'vitest'
import { type Stage, serving } from '../../http/server/stage.ts'
import { hasService, ownMariadb, ownPostgres, ownRedis } from '../../support/services/own.ts'

const lock = { operation: 'pull', resource: 'r', node: 'a' }

async function repeatWithKeys({ ask }: Stage, namespace = 'default'): Promise<void> {
  const post = (path: string, body: object, key: string) =>
    ask('POST', `/v1/${path}`, {
      body,
      headers: { 'idempotency-key': key, 'signalbox-namespace': namespace },
    })
  const granted = await post('locks/acquire', lock, 'acquire')
  assert.deepEqual((await post('locks/acquire', lock, 'acquire')).body, granted.body)
  const end = { ...lock, token: granted.body.token, outcome: 'success' }
  for (let i = 0; i < 2; i++)
    assert.deepEqual((await post('locks/release', end, 'release')).body, { next: null })

  const sight = { subject: ['a'], state: 1 }
  for (let i = 0; i < 2; i++) assert.deepEqual((await post('once/seen', sight, 'seen')).body, { seen: false })
  const other = await post('once/seen', { ...sight, state: 2 }, 'seen')
  assert.deepEqual([other.status, other.body.code], [422, 'idempotency_mismatch'])
  assert.deepEqual(
    (await ask('GET', '/v1/once', { headers: { 'signalbox-namespace': namespace } })).body.items,
    [],
    'keys are no guards of the callers',
  )
}

describe.runIf(hasService('redis'))('request keys with a Redis', () => {
  test('the database stores the request key, and the effect in Redis happens once', async () => {
    await using keys = await ownRedis()
    const options: OpenOptions = { redis: keys.url }
    await using stage = await serving({}, (folder) => `sqlite:${folder}/box.db`, options)
    // A window outlives the run in a Redis that others use, so each run has a new namespace.
    await repeatWithKeys(stage, keys.prefix.slice(0, -1))
  })
})

const places = { postgres: ownPostgres, mariadb: ownMariadb }
for (const [name, own] of Object.entries(places)) {
  describe.runIf(hasService(name as keyof typeof places))(`request keys on ${name}`, () => {
    test('a request key is stored together with its effect', async () => {
      await using place = await own()
      await using stage = await serving({}, place.url, { migrate: true })
      await repeatWithKeys(stage)
    })
  })
}
