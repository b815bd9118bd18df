/** What an operator does to locks, nodes and tasks at a shell, on a server and on its store. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { createPrinter } from '../../src/cli/print.ts'
import { run } from '../../src/cli/run.ts'
import { connectNode, type NodeConnection } from '../../src/http/client/index.ts'
import { createServer, type Server } from '../../src/http/server/index.ts'
import { type Box, open } from '../../src/index.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-fleet-'))
const database = `sqlite:${join(folder, 'box.db')}`
let box: Box
let server: Server
let url: string
let node: NodeConnection

beforeAll(async () => {
  box = await open(database)
  server = createServer({ box, port: 0 })
  ;({ url } = await server.listen())
  node = await connectNode(url, {
    nodeId: 'gpu-1',
    services: [{ name: 'asr', slots: 1, tags: { language: ['en'] } }],
    onTask: (_, { signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
})

afterAll(async () => {
  await node.close()
  await server.close()
  await box.close()
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

type NodeLine = ReturnType<Box['dispatch']['nodes']>[number]

for (const [name, flags] of [
  ['a server', () => ['--url', url]],
  ['a store', () => ['--database', database]],
] as const) {
  describe(`on ${name}`, () => {
    const signalbox = async (...args: readonly string[]) => {
      const written = { out: '', err: '' }
      const stdout = { write: (text: string) => (written.out += text) }
      const stderr = { write: (text: string) => (written.err += text) }
      const code = await run([...args, ...flags()], createPrinter(stdout, stderr, {}))
      return { code, ...written }
    }
    const json = async (...args: readonly string[]) => {
      const { code, out, err } = await signalbox(...args, '--json')
      assert.deepEqual([code, err], [0, ''])
      return JSON.parse(out)
    }

    /** The server publishes what it knows of nodes a moment after it has changed. */
    const seen = async (holds: (node: NodeLine) => boolean) => {
      for (const until = performance.now() + 20_000; ; await new Promise((next) => setTimeout(next, 50))) {
        const { items } = await json('nodes', 'ls')
        if (items.length === 1 && holds(items[0])) return
        assert.ok(performance.now() < until, JSON.stringify(items))
      }
    }

    test('locks evict removes the holder, or the named waiter', async () => {
      const key = { operation: 'pull', resource: `nginx of ${name}` }
      for (const machine of ['m1', 'm2', 'm3'])
        await box.locks.acquire({ ...key, node: machine, ttlMs: '1h' })
      const evict = ['locks', 'evict', key.operation, key.resource] as const
      assert.equal(
        (await signalbox(...evict, '--node', 'm3')).out,
        `removed m3 from the wait queue of pull ${key.resource}\n`,
      )
      assert.deepEqual(await json(...evict), {
        ...key,
        ...{ node: 'm1', requestId: 'm1', wasHolder: true, evicted: true },
      })
      const { holder, waiterCount } = await box.locks.inspect(key)
      assert.deepEqual([holder?.node, waiterCount], ['m2', 0])
      assert.match((await signalbox(...evict)).out, /^evicted m2 from pull nginx of .*: its turn ended as a/)
      const none = await signalbox(...evict)
      assert.deepEqual([none.code, /No node holds pull nginx/.test(none.err)], [1, true])
      assert.equal((await signalbox(...evict, '--node', 'm9')).code, 1)
      assert.equal((await signalbox(...evict, '--request-id', 'x')).code, 2)
    })

    test('nodes cordon keeps work from a node or one of its services, and uncordon lifts it', async () => {
      const { out } = await signalbox('nodes', 'cordon', 'gpu-1')
      assert.equal(out, 'gpu-1 is cordoned: it gets no new work\n')
      await seen(({ nodeId, cordoned }) => nodeId === 'gpu-1' && cordoned)
      assert.deepEqual(await json('nodes', 'uncordon', 'gpu-1'), {
        nodeId: 'gpu-1',
        service: null,
        cordoned: false,
      })
      assert.equal((await json('nodes', 'cordon', 'gpu-1', '--service', 'asr')).service, 'asr')
      await seen(({ cordoned, services }) => !cordoned && services[0]!.cordoned)
      assert.match((await signalbox('nodes', 'ls')).out, /^gpu-1 .* asr cordoned$/m)
      await json('nodes', 'uncordon', 'gpu-1', '--service', 'asr')
      const misspelt = await signalbox('nodes', 'cordon', 'gpu-1', '--service', 'ars')
      assert.equal(
        misspelt.out,
        'ars of gpu-1 is cordoned: it gets no new work (it does not offer it; it has asr)\n',
      )
      await json('nodes', 'uncordon', 'gpu-1', '--service', 'ars')
      const absent = await signalbox('nodes', 'cordon', 'gpu-9')
      assert.deepEqual([absent.code, /There is no node "gpu-9"/.test(absent.err)], [1, true])
    })

    test('tasks are listed, shown, explained and cancelled', async () => {
      const { taskId } = await box.dispatch.submit({ service: 'tts', payload: { said: '早上好' } })
      const { items } = await json('tasks', 'ls', '--status', 'waiting')
      assert.ok(items.some((task: { taskId: string }) => task.taskId === taskId))
      assert.match(
        (await signalbox('tasks', 'ls')).out,
        new RegExp(`^ID +STATUS .*\\n(.*\\n)*${taskId} +waiting +tts +- +\\d +\\d+ s\\n`),
      )
      const shown = await signalbox('tasks', 'show', taskId)
      assert.match(shown.out, /^status +waiting$/m)
      assert.match(shown.out, /^payload +\{"said":"早上好"\}$/m)
      assert.deepEqual((await json('tasks', 'show', taskId)).payload, { said: '早上好' })
      const explained = await signalbox('tasks', 'explain', taskId)
      assert.match(explained.out, /^1 nodes: 0 could take it now/)
      assert.match(explained.out, /^service tts +1$/m)
      assert.match(explained.out, /^nearest: gpu-1 lacks service tts/m)
      assert.equal((await json('tasks', 'explain', taskId)).nodeCount, 1)
      const cancelled = await json('tasks', 'cancel', taskId, '--reason', 'wrong file')
      assert.equal(cancelled.status, 'cancelled')
      assert.equal((await signalbox('tasks', 'cancel', taskId)).out, `${taskId}  cancelled\n`)
      for (const verb of ['show', 'explain', 'cancel'])
        assert.equal((await signalbox('tasks', verb, 'nope')).code, 1, verb)
      assert.equal((await signalbox('tasks', 'ls', '--limit', '501')).code, 2)
    })
  })
}
