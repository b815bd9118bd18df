import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'vitest'
import { createWorkplace, type Serving } from '../../../cli/command.ts'

async function add({ url }: Serving): Promise<{ status: number; text: string }> {
  const headers = { 'content-type': 'application/json' }
  const reply = await fetch(`${url}/v1/jobs`, { method: 'POST', headers, body: '{"kind":"mail"}' })
  return { status: reply.status, text: await reply.text() }
}

test('a server writes only its database, which other users cannot read', async () => {
  using place = createWorkplace()
  const shared = join(place.folder, 'shared')
  mkdirSync(shared)
  await using server = await place.serve(['--database=sqlite:data/x.db'], { TMPDIR: shared, HOME: shared })
  assert.equal((await add(server)).status, 201)
  assert.deepEqual(readdirSync(shared), [], 'no temporary file')
  assert.deepEqual(readdirSync(place.folder).sort(), ['data', 'shared'])
  const data = join(place.folder, 'data')
  assert.equal(statSync(data).mode & 0o777, 0o700)
  for (const file of readdirSync(data)) assert.equal(statSync(join(data, file)).mode & 0o777, 0o600, file)
})

test('a malicious database file cannot load code, and its failure reveals nothing', async () => {
  using place = createWorkplace()
  const file = join(place.folder, 'x.db')
  const flags = [`--database=sqlite:${file}`, '--log-level=silent']
  {
    await using server = await place.serve(flags)
    assert.equal((await add(server)).status, 201)
    server.kill('SIGTERM')
    await server.ended
  }
  const hostile = new DatabaseSync(file)
  hostile.exec(`
    CREATE VIEW tempting AS SELECT load_extension('./evil.so') AS x;
    CREATE TRIGGER evil BEFORE INSERT ON job_queue BEGIN SELECT load_extension('./evil.so'); END;`)
  hostile.close()
  await using server = await place.serve(flags)
  const { status, text } = await add(server)
  assert.ok(status >= 500, `${status} ${text}`)
  assert.doesNotMatch(text, /load_extension|evil|trigger|SELECT/i)
  assert.equal((await fetch(`${server.url}/livez`)).status, 200)
  assert.equal((await fetch(`${server.url}/v1/queues`)).status, 200, 'what does not touch it goes on')
})
