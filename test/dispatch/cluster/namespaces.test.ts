import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import { until } from '../service/stage.ts'

test('a server dispatches tasks also in a namespace that no request has named since it started', async () => {
  const file = join(tmpdir(), `namespaces-${createId()}.db`)
  try {
    await using quiet = await open(`sqlite:${file}`, { namespace: 'quiet' })
    const { taskId } = await quiet.dispatch.submit({ service: 'nmt', deadlineMs: 100 })
    await quiet.dispatch.definePool({ name: 'all', requires: [] })
    await using box = await open(`sqlite:${file}`)
    await using server = createServer({ box, port: 0 })
    await server.listen()
    await until('its deadline is kept', async () => (await quiet.dispatch.task(taskId))?.status === 'failed')
    assert.equal((await quiet.dispatch.task(taskId))?.error?.code, 'deadline_exceeded')
  } finally {
    for (const end of ['', '-wal', '-shm']) await rm(file + end, { force: true })
  }
})
