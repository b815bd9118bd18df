/**
 * Boxes that run the same schedules, and are killed with -9 or stopped for a while. Whatever becomes of them, the database
 * must have exactly one job for each slot, and no slot left out.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../../src/index.ts'
import type { JobRecord } from '../../../src/jobs/index.ts'
import type { Program } from '../../support/services/program.ts'
import { createCrew } from '../crew.ts'
import { createRandom } from '../random.ts'
import type { Counts } from '../stage.ts'

export interface SchedulingOptions {
  readonly seed: number
  readonly members: number
  readonly kills: number
  /** How many slots of the fastest schedule must be due. */
  readonly slots: number
}

const script = join(import.meta.dirname, 'scheduler-process.ts')
const everyMs = { slow: 1_000, fast: 500 }
const deadlineMs = 60_000

export async function scheduleThroughKills(
  { url }: { readonly url: string },
  { seed, members: count, kills, slots }: SchedulingOptions,
): Promise<Counts> {
  await using kept = new AsyncDisposableStack()
  const box = kept.use(await open(url as 'sqlite:', { namespace: 'scheduling', migrate: true }))
  const { schedules } = box.jobs
  const crew = kept.use(createCrew())
  const random = createRandom(seed)
  const start = () => crew.start(script, { url })
  const members: Promise<Program>[] = Array.from({ length: count }, start)
  await Promise.all(members)

  const first: Record<string, number> = {}
  for (const [name, ms] of Object.entries(everyMs)) {
    const made = await schedules.set(name, { everyMs: ms, catchUp: 'all', job: { kind: 'tick' } })
    first[name] = made.nextAt!
  }
  // The same slots by a cron line, and by the clock of the wall.
  const second = {
    cron: '* * * * * *',
    timeZone: 'Europe/Berlin',
    catchUp: 'all',
    job: { kind: 'tick' },
  } as const
  first.cron = (await schedules.set('cron', second)).nextAt!

  for (let kill = 0; kill < kills; kill++) {
    await sleep(random.whole(50, 400))
    const victim = await members.shift()!
    await crew.pause(await members[0]!, random.whole(50, 400))
    await crew.kill(victim)
    const next = start()
    // The caller awaits it later; until then a rejection must not be unhandled.
    next.catch(() => undefined)
    members.push(next)
  }
  const enough = first.fast! + slots * everyMs.fast
  for (const deadline = Date.now() + deadlineMs; ; await sleep(50)) {
    const { items } = await schedules.list()
    if (items.every(({ lastSlotAt }) => (lastSlotAt ?? 0) >= enough)) break
    if (Date.now() > deadline) throw new Error(`no slot came for long: ${JSON.stringify(items)}`)
  }
  for (const name of Object.keys(first)) await schedules.pause(name)
  await Promise.all(members.map(async (member) => crew.stop(await member)))

  const complaints = [...crew.accidents]
  const jobs = await readAll((before) => box.backend.jobs.list({ limit: 500, ...(before ? { before } : {}) }))
  const ran = slotsByName(jobs)
  for (const [name, firstAt] of Object.entries(first)) {
    const { lastSlotAt } = (await schedules.find(name))!
    const ms = name === 'fast' ? everyMs.fast : 1_000
    const expected = Array.from({ length: (lastSlotAt! - firstAt) / ms + 1 }, (_, at) => firstAt + at * ms)
    const found = (ran.get(name) ?? []).sort((a, b) => a - b)
    if (JSON.stringify(found) !== JSON.stringify(expected))
      complaints.push(`${name} ran ${differences(expected, found)}`)
  }
  if (complaints.length > 0) throw new Error(`seed ${seed}:\n${complaints.slice(0, 20).join('\n')}`)
  return { kills, pauses: kills, jobs: jobs.length }
}

function slotsByName(jobs: readonly JobRecord[]): Map<string, number[]> {
  const byName = new Map<string, number[]>()
  for (const { meta } of jobs) {
    const { schedule, slotAt } = JSON.parse(meta!) as { schedule: string; slotAt: number }
    byName.set(schedule, [...(byName.get(schedule) ?? []), slotAt])
  }
  return byName
}

function differences(expected: readonly number[], found: readonly number[]): string {
  const twice = found.filter((slot, at) => found.indexOf(slot) !== at)
  const missed = expected.filter((slot) => !found.includes(slot))
  const strange = found.filter((slot) => !expected.includes(slot))
  return `twice ${twice.join(' ')}; not at all ${missed.join(' ')}; out of turn ${strange.join(' ')}`
}

async function readAll(
  page: (before: string | undefined) => Promise<readonly JobRecord[]>,
): Promise<readonly JobRecord[]> {
  const all: JobRecord[] = []
  for (let before: string | undefined; ; before = all.at(-1)!.id) {
    const some = await page(before)
    all.push(...some)
    if (some.length < 500) return all
  }
}
