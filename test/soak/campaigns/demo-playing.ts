import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startDemo } from '../../../src/demo/index.ts'
import { createServer } from '../../../src/http/server/index.ts'
import { open } from '../../../src/index.ts'
import { type Campaign, CampaignFailure } from '../campaign.ts'
import { openOnlooker } from '../onlooker.ts'

/** One piece is half a minute; a soak plays as long as asked, in one go. */
const pieceMs = 30_000
const lookMs = 1_000
/** How much more memory the last quarter may take than the second one: what caches and pools settle at is reached by then. */
const allowedGrowth = 1.25

/** How often the browser opens the next view. */
const viewMs = 3_000

/** The demo runs on a new file while a browser looks at it: there are no unexpected errors, and memory stays level. */
export const demoPlaying: Campaign = {
  name: 'demo-playing',
  module: 'demo',
  description:
    'plays the demo while a browser opens its views, and checks for unplanned failures and for growing memory',
  async run({ seed, scale, progress }) {
    const spanMs = scale.kind === 'minutes' ? scale.minutes * 60_000 : scale.runs * pieceMs
    const folder = mkdtempSync(join(tmpdir(), 'signalbox-demo-soak-'))
    const faults: string[] = []
    const sizes: number[] = []
    let views = 0
    try {
      await using box = await open(`sqlite:${join(folder, 'demo.db')}`, {
        allowPrivate: ['127.0.0.0/8'],
        retentionMs: '5m',
      })
      await using server = createServer({ box, port: 0 })
      const { url } = await server.listen()
      await using demo = startDemo({
        box,
        url,
        onFault: (who, error) => faults.push(`${who}: ${String(error)}`),
      })
      await using onlooker = await openOnlooker(url)
      const endsAt = performance.now() + spanMs
      let viewAt = 0
      while (performance.now() < endsAt && demo.faultCount === 0 && onlooker.complaints.length === 0) {
        await sleep(lookMs)
        if (performance.now() >= viewAt) {
          await onlooker.look()
          viewAt = performance.now() + viewMs
        }
        sizes.push(process.memoryUsage().rss)
        const leftMs = endsAt - performance.now()
        progress(
          `${Math.max(0, Math.round(leftMs / 1_000))} s left, ${Math.round(sizes.at(-1)! / 1_048_576)} MB`,
        )
      }
      views = onlooker.lookCount
      for (const complaint of onlooker.complaints) faults.push(`the page complained: ${complaint}`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
    if (faults.length > 0) throw new CampaignFailure(seed, `the demo failed: ${faults[0]}`)
    const quarter = Math.floor(sizes.length / 4)
    const early = mean(sizes.slice(quarter, 2 * quarter))
    const late = mean(sizes.slice(-quarter))
    if (quarter >= 60 && late > early * allowedGrowth)
      throw new CampaignFailure(seed, `memory grew from ${mb(early)} to ${mb(late)} MB`)
    return {
      counts: {
        seconds: Math.round(spanMs / 1_000),
        views,
        faults: 0,
        megabytesEarly: mb(early),
        megabytesLate: mb(late),
      },
    }
  },
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
}

function mb(bytes: number): number {
  return Math.round(bytes / 1_048_576)
}
