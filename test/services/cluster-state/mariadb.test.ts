/** Documents of the cluster state that nearly fill a packet of the server. */
import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import type { ClusterWrite } from '../../../src/dispatch/cluster/cluster-store.ts'
import { PooledCalls } from '../../../src/storage/mariadb/connection/calls.ts'
import { parseTarget, waitingSession } from '../../../src/storage/mariadb/connection/connection.ts'
import { MariadbDatabase } from '../../../src/storage/mariadb/connection/database.ts'
import { Pool } from '../../../src/storage/mariadb/connection/pool.ts'
import { openMariadb } from '../../../src/storage/mariadb/index.ts'
import { createClusterStore } from '../../../src/storage/sql/cluster-state.ts'
import { hasService, ownMariadb } from '../../support/services/own.ts'

describe.runIf(hasService('mariadb'))('the cluster state on a MariaDB with small packets', () => {
  test('stores large documents whole, and refuses a document larger than a packet', async () => {
    await using database = await ownMariadb()
    await using backend = await openMariadb(database.url, { namespace: 'own', migrate: true })
    const target = parseTarget(database.url)
    const pool = new Pool({ ...target.options, multipleStatements: true }, waitingSession, 2)
    try {
      const calls = new PooledCalls(pool)
      const small = new MariadbDatabase({
        ...{ database: target.database, packetBytes: 65_536, checkTransaction: async () => undefined },
        calls: { core: calls, waiting: calls, heartbeat: calls },
      })
      const clusterStore = createClusterStore(small, 'own')
      const texts = ['a', 'é', '汉', "'"].map((character) => JSON.stringify(character.repeat(20_000)))
      const versions = await clusterStore.write(texts.map((doc, n) => aWrite(`${n}`, doc)))
      for (const [n, doc] of texts.entries()) {
        const found = await backend.cluster.find('node', `${n}`)
        assert.equal(found?.version, versions[n])
        assert.ok(found?.doc === doc, `${n}`)
      }
      const late = await clusterStore.write([
        aWrite('0', '1', versions[0]!),
        aWrite('0', texts[1]!, versions[0]!),
        aWrite('1', texts[2]!),
        aWrite('2', texts[0]!, versions[2]!),
      ])
      assert.deepEqual(
        late.map((version) => version !== null),
        [true, false, false, true],
      )
      assert.equal((await clusterStore.find('node', '0'))?.doc, '1')
      assert.ok((await clusterStore.find('node', '1'))?.doc === texts[1])
      assert.ok((await clusterStore.find('node', '2'))?.doc === texts[0])
      const before = await clusterStore.read(0, 100)
      await assert.rejects(
        clusterStore.write([aWrite('new', '{}'), aWrite('large', `"${'x'.repeat(70_000)}"`)]),
        {
          code: 'too_large',
        },
      )
      assert.deepEqual((await clusterStore.read(0, 100)).rows, before.rows)
    } finally {
      await pool.close()
    }
  })
})

function aWrite(key: string, doc: string, seen = 0): ClusterWrite {
  return { kind: 'node', key, seen, doc, forMs: null }
}
