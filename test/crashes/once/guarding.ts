/**
 * Claimers of the same keys are killed with -9 while they hold some, or stopped for longer than their leases. No claimer
 * may run a key that another holds or has done. A dead claimer's keys are free after its lease, or stuck in that mode.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../../src/index.ts'
import { createFolder } from '../../support/services/folder.ts'
import type { Program } from '../../support/services/program.ts'
import { createCrew } from '../crew.ts'
import { monotonicMs, readEventLogs } from '../event-log.ts'
import { createRandom } from '../random.ts'
import type { Counts } from '../stage.ts'
import { checkGuards } from './guard-checker.ts'
import { type ClaimerOptions, type GuardEvent, keyTerms, termsOf } from './guard-plan.ts'

export interface GuardingOptions {
  readonly seed: number
  readonly claimers: number
  readonly kills: number
}

const script = join(import.meta.dirname, 'claimer-process.ts')

/** On the guards of a store; with guards in Redis, a SQLite file keeps everything else. */
export async function guardThroughKills(
  ground: { readonly url: string; readonly namespace: string },
  { seed, claimers, kills }: GuardingOptions,
): Promise<Counts> {
  await using kept = new AsyncDisposableStack()
  const folder = kept.use(createFolder('guarding')).path
  const { namespace } = ground
  const redis = ground.url.startsWith('redis') ? ground.url : undefined
  const url = redis === undefined ? ground.url : `sqlite:${join(folder, 'store.db')}`
  const box = kept.use(await open(url as 'sqlite:', { namespace, redis, migrate: true }))

  const crew = kept.use(createCrew())
  const random = createRandom(seed)
  const shared = { url, redis, namespace, folder, startedAt: monotonicMs() }
  let started = 0
  const start = () => {
    const options: ClaimerOptions = { ...shared, name: `c${started}`, seed: seed * 1_000 + started++ }
    return crew.start(script, options)
  }
  const members: Promise<Program>[] = Array.from({ length: claimers }, start)
  await Promise.all(members)
  for (let kill = 0; kill < kills; kill++) {
    await sleep(random.whole(100, 400))
    const victim = await members.shift()!
    // As long as a lease or two: it wakes and finds that it has lost its claims.
    await crew.pause(await members[0]!, random.whole(100, 600))
    await crew.kill(victim)
    const next = start()
    // Its waiter gets the error; no other code waits for it.
    next.catch(() => undefined)
    members.push(next)
  }
  await Promise.all(members.map(async (member) => crew.stop(await member)))

  const events = readEventLogs<GuardEvent>(folder)
  const longest = Math.max(...Object.values(keyTerms).map(({ leaseMs }) => leaseMs))
  await sleep(longest + 50)
  const last: GuardEvent[] = []
  for (const key of new Set(events.map((event) => event.key))) {
    const answer = await box.once.claim(key, termsOf(key))
    const result = answer.status === 'done' ? (answer.result as string) : undefined
    const status = answer.degraded ? 'unanswered' : answer.status
    last.push({ type: 'last', key, status, result, t: monotonicMs() })
  }
  const { complaints, counts } = checkGuards([...events, ...last])
  const all = [...complaints, ...crew.accidents]
  if (all.length > 0)
    throw new Error(`${all.length} complaints, seed ${seed}:\n${all.slice(0, 20).join('\n')}`)
  const errors = events.filter((event) => event.type === 'error')
  // A store may be busy for a moment; one that mostly refuses has shown nothing.
  if (errors.length > counts.runs / 20)
    throw new Error(`${errors.length} claims failed beside ${counts.runs} runs: ${errors[0]?.error}`)
  return { kills, pauses: kills, ...counts, errors: errors.length }
}
