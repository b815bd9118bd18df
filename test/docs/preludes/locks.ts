import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { type Connection, createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import { addresses } from '../addresses.ts'
import { box } from '../box.ts'
import { check, command } from '../prelude.ts'

export * from '../box.ts'

const pulled = new Set<string>()
export const findInCache = async (image: string): Promise<string | undefined> =>
  pulled.has(image) ? image : undefined
export async function pull(image: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  pulled.add(image)
  return image
}
export async function deploy({ fence, signal }: { fence: number; signal: AbortSignal }): Promise<void> {
  assert.ok(fence > 0 && !signal.aborted)
}

check('A mutex', async ({ values: { held } }) => {
  assert.ok(held.token > 0)
  // The warning under the example: a block that throws releases the lock as a success.
  const failing = async () => {
    await using _ = await box.locks.hold('warning', 'eu-1', { node: 'node-7' })
    throw new Error('the deployment failed')
  }
  await assert.rejects(failing, /the deployment failed/)
  const { lastOutcome } = await box.locks.inspect({ operation: 'warning', resource: 'eu-1' })
  assert.equal(lastOutcome?.outcome, 'success')
})

check('One works, nine wait', ({ values: { image } }) => {
  assert.equal(image, 'app:1.2')
  assert.ok(pulled.has('app:1.2'))
})

for (const [name, script] of [
  ['deploy.sh', 'echo deployed'],
  ['pg_dump', 'echo dumped'],
  ['docker', 'echo "docker $*"'],
] as const) {
  command(name, `[[ -n $SIGNALBOX_LOCK_TOKEN ]] && ${script}`)
}
writeFileSync('deploy.sh', '#!/bin/sh\nexec bin/deploy.sh\n', { mode: 0o755 })
check('In a shell', ({ output }) => assert.equal(output, 'deployed\ndumped\ndocker pull app:1.2\n'))

// A row that a fenced write may change, on each engine.
export const digest = 'sha256:0b1f'
export const held = { token: 7 } as const
const table = 'CREATE TABLE images (id varchar(40), digest varchar(40), fence BIGINT NOT NULL DEFAULT 0)'
const row = "INSERT INTO images (id, fence) VALUES ('app:1.2', 6)"
export const pg: Client = new Client(addresses.postgres)
export const mysql: Connection = await createConnection(addresses.mariadb!)
export const db: DatabaseSync = new DatabaseSync('images.db')
await pg.connect()
for (const statement of [table, row]) {
  await pg.query(statement)
  await mysql.query(statement)
  db.exec(statement)
}
check('The fence', ({ values }) => assert.equal(values.rowCount, 1))
check('The fence #2', ({ values }) => assert.equal(values.affectedRows, 1))
check('The fence #3', ({ values }) => assert.equal(values.changes, 1))
