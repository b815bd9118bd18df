import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { test } from 'vitest'
import { open } from '../../../src/index.ts'
import { ownSqlite } from '../../conformance/candidates.ts'
import { hasService, ownMariadb, ownPostgres } from '../../support/services/own.ts'

const reporter = fileURLToPath(new URL('../../conformance/monitor/reporter.ts', import.meta.url))
const run = promisify(execFile)
const [crawlers, rounds, venues] = [8, 4, 25]

const wanted = process.env.BACKENDS?.split(',').map((name) => name.trim())
const engines = [
  { name: 'sqlite', own: ownSqlite, isThere: true },
  { name: 'postgres', own: ownPostgres, isThere: hasService('postgres') },
  { name: 'mariadb', own: ownMariadb, isThere: hasService('mariadb') },
]

for (const { name, own, isThere } of engines) {
  const isLeftOut = !isThere || (wanted !== undefined && !wanted.includes(name))
  test.skipIf(isLeftOut)(
    `${name}: eight crawler processes race, and every change is notified once, in order`,
    { timeout: 120_000 },
    async () => {
      await using database = await own()
      await using box = await open(database.url, { namespace: 'race', migrate: true })
      const channel = {
        type: 'webhook' as const,
        url: 'https://example.com/',
        secret: 'eight-or-more-characters',
      }
      await box.monitor.subscribe({ name: 'desk', channel })
      const start = Date.now() - 600_000
      const baseline = ['own', 'shared'].flatMap((prefix) =>
        Array.from({ length: venues }, (_, index) => ({
          venueId: `${prefix}-${index}`,
          state: { round: 0 },
        })),
      )
      const place = { source: 'gym', timeSlot: '18:00-19:00' }
      await box.monitor.report({ ...place, taskId: 'baseline', observedAt: start, venues: baseline })

      const outputs = await Promise.all(
        Array.from({ length: crawlers }, (_, index) => {
          const facts = [database.url, 'race', `crawler ${index}`, rounds, venues, start]
          return run(process.execPath, [reporter, ...facts.map(String)])
        }),
      )

      const answers = outputs.flatMap(({ stdout }) => JSON.parse(stdout) as Answer[])
      assert.equal(
        answers.reduce((sum, { failed }) => sum + failed, 0),
        0,
      )
      for (let round = 1; round <= rounds; round++) {
        const taken = answers.filter((answer) => answer.round === round && answer.shared === 'processed')
        assert.equal(taken.length, 1, `round ${round} was taken up by one`)
      }
      const notified = await allNotifications(box.monitor)
      assert.equal(
        notified.length,
        answers.reduce((sum, { notified }) => sum + notified, 0),
      )
      for (const { venueId } of baseline) {
        // Each message starts in the state in which the one before ended: none is missing, none comes twice.
        let last = 0
        for (const { from, to } of notified.filter((one) => one.venueId === venueId)) {
          assert.equal((from as State).round, last, venueId)
          assert.ok((to as State).round > last, venueId)
          last = (to as State).round
        }
        assert.equal(last, rounds, `${venueId} was notified to the end`)
      }
    },
  )
}

interface Answer {
  readonly round: number
  readonly shared: string
  readonly notified: number
  readonly failed: number
}

interface State {
  readonly round: number
}

/** Oldest first. */
async function allNotifications(monitor: Awaited<ReturnType<typeof open>>['monitor']) {
  const all: Awaited<ReturnType<typeof monitor.notifications>>['items'][number][] = []
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<typeof monitor.notifications>> = await monitor.notifications({
      limit: 500,
      cursor,
    })
    all.push(...page.items)
    cursor = page.cursor
  } while (cursor !== null)
  return all.toReversed()
}
