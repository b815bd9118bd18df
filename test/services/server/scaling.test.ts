/** Scaling of a service sees the tasks and nodes of all servers on a store, whichever server is asked. */
import assert from 'node:assert/strict'
import { connectNode, createClient } from 'signalbox/client'
import { createServer } from 'signalbox/server'
import { describe, test } from 'vitest'
import { aNamespace, candidates } from '../../conformance/candidates.ts'
import { within } from '../../support/deadline.ts'

for (const candidate of candidates().filter(({ isShared }) => isShared)) {
  describe(candidate.title, { timeout: 120_000, concurrent: true }, () => {
    test('two servers give the same scaling answer for nodes and tasks that are spread over both', async () => {
      const namespace = aNamespace()
      await using cleanUp = new AsyncDisposableStack()
      const settings = { dispatch: { pollMs: 50, serverLeaseMs: 3_000 } }
      const urls = await Promise.all(
        [1, 2].map(async (nr) => {
          const backend = cleanUp.use(await candidate.open({ namespace }))
          const own = { ...settings, dispatch: { ...settings.dispatch, workerId: `server-${nr}` } }
          const server = cleanUp.adopt(createServer({ box: { backend, settings: own }, port: 0 }), (one) =>
            one.close({ graceMs: 200 }),
          )
          return (await server.listen()).url
        }),
      )
      const clients = urls.map((url) =>
        cleanUp.adopt(createClient(url, { namespace }), (client) => client.close()),
      )
      const scalings = (of: { readonly slots?: number } = {}) =>
        Promise.all(clients.map((client) => client.metrics.scaling({ service: 'asr', ...of })))
      const over = Promise.withResolvers<void>()
      // Two slots at the first server; the other has only a node for another service.
      const nodes = [
        { nodeId: 'a', services: [{ name: 'asr', slots: 2, tags: {} }] },
        { nodeId: 'b', services: [{ name: 'mt', slots: 1, tags: {} }] },
      ]
      for (const [nr, { nodeId, services }] of nodes.entries())
        cleanUp.use(
          await connectNode(urls[nr]!.replace('http', 'ws'), {
            ...{ nodeId, services, namespace },
            onTask: async () => {
              await over.promise
              return 1
            },
          }),
        )
      for (let nth = 0; nth < 8; nth++)
        await clients[nth % 2]!.dispatch.submit({ service: 'asr', payload: nth })
      const seen = async () =>
        (await scalings()).map(({ waiting, running, live, wanted, slotsPerMember }) => [
          ...[waiting, running, live],
          ...[wanted, slotsPerMember],
        ])
      await until('both see eight tasks, of which two run', async () => {
        const all = await seen()
        return all.every((one) => one.join() === '6,2,1,4,2')
      })
      const [one, two] = await scalings({ slots: 4 })
      assert.deepEqual([one!.wanted, two!.wanted], [2, 2])
      for (const { oldestMs, reason } of [one!, two!]) {
        assert.ok(oldestMs! > 0 && oldestMs! < 60_000, `${oldestMs}`)
        assert.match(reason, /^6 wait, the oldest for /)
      }
      over.resolve()
      await until('all tasks ended', async () =>
        (await seen()).every(([waiting, running]) => waiting === 0 && running === 0),
      )
      // Counts are written every ten seconds, by the servers that did the work.
      await until('the rates are known to both', async () =>
        (await scalings()).every(
          ({ arrivalPerSecond, servicePerSecond, runMs }) =>
            Math.round(arrivalPerSecond * 300) === 8 &&
            Math.round(servicePerSecond * 300) === 8 &&
            runMs !== null,
        ),
      )
      // Tasks are not among the jobs.
      const [jobs] = (await clients[0]!.metrics.series()).items
      assert.equal(jobs!.total.added, 0)
      const [tasks] = (await clients[0]!.metrics.series({ queue: 'signalbox.dispatch', by: 'kind' })).items
      assert.deepEqual([tasks!.kind, tasks!.total.added, tasks!.total.completed], ['asr', 8, 8])
    })
  })
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const look = async () => {
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 200))
  }
  await within(60_000, what, look())
}
