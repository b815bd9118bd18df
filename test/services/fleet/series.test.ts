/**
 * Library workers in separate processes, and a server that runs no jobs: its overview, series and `/metrics` show the
 * work of the workers.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Box, open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { ownSqlite } from '../../conformance/candidates.ts'
import { hasService, ownMariadb, ownPostgres } from '../../support/services/own.ts'

const program = fileURLToPath(new URL('./working-process.ts', import.meta.url))
const namespace = 'fleet'
const wanted = process.env.BACKENDS?.split(',').map((name) => name.trim())
const engines = [
  { name: 'sqlite', own: ownSqlite, isThere: true },
  { name: 'postgres', own: ownPostgres, isThere: hasService('postgres') },
  { name: 'mariadb', own: ownMariadb, isThere: hasService('mariadb') },
]

for (const { name, own, isThere } of engines) {
  const isLeftOut = !isThere || (wanted !== undefined && !wanted.includes(name))
  test.skipIf(isLeftOut)(
    `${name}: a server without workers shows the series of three library workers`,
    { timeout: 180_000, concurrent: true },
    async () => {
      await using database = await own()
      await using box = await open(database.url, { namespace, migrate: true })
      await using server = createServer({ box, port: 0 })
      const { url } = await server.listen()
      using client = createClient(url, { namespace })
      await using workers = new AsyncDisposableStack()
      const began = performance.now()
      await Promise.all(
        ['one', 'two', 'three'].map(async (queue) => {
          const child = workers.adopt(begin(database.url, queue, 40), end)
          await line(child, 'over')
        }),
      )
      const endedMs = performance.now() - began
      const overview = await until(
        () => client.overview.get(),
        ({ history }) =>
          history.samples.reduce((sum, { completed, dead }) => sum + completed + dead, 0) === 120,
      )
      const tookMs = performance.now() - began - endedMs
      console.log(`${name}: the overview showed all of it ${Math.round(tookMs)} ms after the last job`)
      assert.equal(
        overview.history.samples.reduce((sum, { added }) => sum + added, 0),
        120,
      )
      const whole = (await client.metrics.series()).items[0]!.total
      const { added, started, completed, failed, dead, cancelled } = whole
      assert.deepEqual(
        { added, started, completed, failed, dead, cancelled },
        { added: 120, started: 150, completed: 90, failed: 30, dead: 30, cancelled: 0 },
      )
      assert.deepEqual([whole.run?.count, whole.wait?.count], [150, 150])
      // Each worker began before its jobs were added.
      assert.deepEqual(Object.keys(whole.waitMsBy), ['queue'])
      const queues = (await client.metrics.series({ by: 'queue' })).items
      assert.deepEqual(queues.map(({ queue, total }) => [queue, total.completed, total.dead]).toSorted(), [
        ['one', 30, 10],
        ['three', 30, 10],
        ['two', 30, 10],
      ])
      const broken = (await box.metrics.series({ kind: 'broken', queue: 'two' })).items[0]!
      assert.deepEqual([broken.total.added, broken.total.failed, broken.total.dead], [10, 10, 10])
      const metrics = await (
        await fetch(`${url}/metrics`, { headers: { 'signalbox-namespace': namespace } })
      ).text()
      for (const queue of ['one', 'two', 'three']) {
        const labels = `source="fleet",namespace="${namespace}",queue="${queue}"`
        assert.ok(metrics.includes(`signalbox_jobs_total{${labels},name="mail",outcome="completed"} 30\n`))
        assert.ok(metrics.includes(`signalbox_jobs_total{${labels},name="broken",outcome="dead"} 10\n`))
        assert.ok(metrics.includes(`signalbox_job_run_seconds_count{${labels}} 50\n`))
      }
      assert.doesNotMatch(metrics, /signalbox_jobs\w*\{source="process"/)
    },
  )

  test.skipIf(isLeftOut)(
    `${name}: a worker that is killed loses at most the counts of its last ten seconds`,
    { timeout: 180_000, concurrent: true },
    async () => {
      await using database = await own()
      await using box = await open(database.url, { namespace, migrate: true })
      const child = begin(database.url, 'endless', 0)
      try {
        // Two writes at least, so that the second is not the first.
        const first = await until(
          () => completedOf(box),
          (completed) => completed > 0,
        )
        await until(
          () => completedOf(box),
          (completed) => completed > first,
        )
      } finally {
        child.kill('SIGKILL')
      }
      await once(child, 'exit')
      const counted = await completedOf(box)
      const pages = await allCompleted(box)
      const killedAt = Math.max(...pages)
      // The write may take a while on a busy machine.
      const old = pages.filter((finishedAt) => finishedAt < killedAt - 15_000).length
      assert.ok(counted >= old, `${counted} are counted of ${old} that ended 15 s before`)
      assert.ok(counted <= pages.length, `${counted} are counted of ${pages.length}`)
      console.log(`${name}: ${counted} of ${pages.length} ends were counted`)
    },
  )
}

async function completedOf(box: Box): Promise<number> {
  return (await box.metrics.series({ queue: 'endless' })).items[0]!.total.completed
}

async function allCompleted(box: Box): Promise<readonly number[]> {
  const ends: number[] = []
  let cursor: string | undefined
  do {
    const page = await box.jobs.list({ queue: 'endless', state: 'completed', limit: 500, cursor })
    ends.push(...page.items.map(({ finishedAt }) => finishedAt!))
    cursor = page.cursor ?? undefined
  } while (cursor !== undefined)
  return ends
}

function begin(url: string, queue: string, count: number): ChildProcess {
  const args = [program, url, namespace, queue, String(count)]
  return spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
}

/** A worker that is asked to end writes its last counts. */
async function end(child: ChildProcess): Promise<void> {
  child.stdin!.end()
  if (child.exitCode === null) await once(child, 'exit')
}

async function line(child: ChildProcess, text: string): Promise<void> {
  for await (const chunk of child.stdout!) if (String(chunk).includes(text)) return
  throw new Error(`The worker ended with ${child.exitCode} before it said "${text}".`)
}

async function until<Answer>(ask: () => Promise<Answer>, isSo: (answer: Answer) => boolean): Promise<Answer> {
  const deadline = performance.now() + 60_000
  for (;;) {
    const answer = await ask()
    if (isSo(answer)) return answer
    assert.ok(performance.now() < deadline, JSON.stringify(answer))
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
}
