import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { connectNode, createClient } from 'signalbox/client'
import { test } from 'vitest'
import { within } from '../../support/deadline.ts'

const script = fileURLToPath(new URL('../connections/connect-node-server-process.ts', import.meta.url))

async function serve(port: number, database: string): Promise<{ process: ChildProcess; url: string }> {
  const child = spawn(process.execPath, ['--conditions=source', script, String(port), database], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await within(30_000, 'a server', once(child.stdout!, 'data'))
  return { process: child, url: String(line).trim() }
}

test('a server that is killed repeatedly loses no task, and nodes connect to the next one on their own', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-kills-'))
  const database = `sqlite:${join(folder, 'kills.db')}`
  let server = await serve(0, database)
  const { url } = server
  const port = Number(new URL(url).port)
  using client = createClient(url, { timeoutMs: '30s' })
  const nodes = await Promise.all(
    ['a', 'b'].map((nodeId) =>
      connectNode(url, {
        nodeId,
        services: [{ name: 'square', slots: 4 }],
        backoff: { baseMs: 50, factor: 1.5, jitter: 0.5, maxMs: 300 },
        onTask: async ({ payload }) => {
          await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 200))
          return (payload as number) ** 2
        },
      }),
    ),
  )
  let connectCount = 0
  for (const node of nodes) node.events.on('connected', () => connectCount++)
  try {
    const numbers = new Map<string, number>()
    for (let round = 0; round < 3; round++) {
      const submits = Array.from({ length: 20 }, async (_, index) => {
        const number = round * 100 + index
        numbers.set((await client.dispatch.submit({ service: 'square', payload: number })).taskId, number)
      })
      await Promise.all(submits)
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 200))
      server.process.kill('SIGKILL')
      await once(server.process, 'exit')
      server = await serve(port, database)
    }
    const list = async () => (await client.dispatch.tasks({ limit: 100 })).items
    const areOver = async () => {
      while (!(await list()).every(({ finishedAt }) => finishedAt !== null))
        await new Promise((resolve) => setTimeout(resolve, 100))
    }
    await within(60_000, 'all tasks', areOver())
    const tasks = await list()
    assert.equal(tasks.length, 60)
    for (const { taskId, status, output } of tasks)
      assert.deepEqual([status, output], ['completed', numbers.get(taskId)! ** 2])
    assert.ok(connectCount >= 2, `${connectCount} connections after the first`)
    const areSettled = async () => {
      while (nodes.some(({ taskIds }) => taskIds.length > 0))
        await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await within(20_000, 'the nodes to let go of everything', areSettled())
  } finally {
    await Promise.all(nodes.map((node) => node.close()))
    server.process.kill('SIGKILL')
    await rm(folder, { recursive: true })
  }
}, 180_000)
