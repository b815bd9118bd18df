import { setTimeout as sleep } from 'node:timers/promises'
import { invalidArgument, SignalboxError } from '../core/errors.ts'
import {
  beforeBaseline,
  type CopyEnd,
  copyMark,
  copyTables,
  type LiveLease,
  type MigrationStatus,
  openCopyEnd,
  openMigrator,
} from '../storage/index.ts'
import { openBackend } from '../storage/open.ts'
import type { CopyNews } from './copy-progress.ts'

/** Both ends of a copy, which are checked before the copy changes anything. */
export interface Ends {
  readonly source: CopyEnd
  readonly target: CopyEnd
  readonly sourceId: string
  /** The content of the target. */
  readonly state: 'empty' | 'begun' | 'a store'
}

type Side = 'source' | 'target'

/** Opens both ends and refuses those that no copy can use. A refused end does not change. */
export async function openEnds(from: string, to: string, kept: AsyncDisposableStack): Promise<Ends> {
  const source = kept.use(await openCopyEnd(from))
  const target = kept.use(await openCopyEnd(to))
  // Each engine has its own migration steps, so each has its own latest schema.
  const ours = await statusOf('source', from)
  requireSchema('source', await source.schema(), ours.latest)
  if (ours.current === copyMark)
    throw new SignalboxError(
      'copy_unfinished',
      'Another copy fills the source and has not ended. Finish that copy first, then copy from this source.',
    )
  const sourceId = (await source.storeId())!
  if ((await target.storeId()) === sourceId)
    throw invalidArgument(
      'FROM and TO are the same store (or a copy of its files): there is nothing to copy. Name an empty database as TO.',
    )
  const schema = await target.schema()
  const { latest } = await statusOf('target', to)
  if (schema === 0) return { source, target, sourceId, state: 'empty' }

  const unfinished = await target.unfinished()
  // The copy migrates an empty target. A target that a copy began to fill must have the schema of this version.
  if (schema > latest || unfinished !== undefined) requireSchema('target', schema, latest)
  if (unfinished !== undefined) {
    if (unfinished.from === sourceId) return { source, target, sourceId, state: 'begun' }
    throw new SignalboxError(
      'copy_target_taken',
      `The target is being filled by a copy from another source (store ${unfinished.from}), which has not ended. End that, or name an empty database.`,
    )
  }
  const filled = await target.firstFilled()
  if (filled === undefined) return { source, target, sourceId, state: 'empty' }
  return { source, target, sourceId, state: 'a store' }
}

/** Throws if the target has nothing to compare. */
export async function requireFilled({ target }: Ends, to: string): Promise<void> {
  const { latest } = await statusOf('target', to)
  requireSchema('target', await target.schema(), latest)
}

/** Throws unless a copy can begin or continue in the target. */
export async function requireEmptyTarget({ target, sourceId, state }: Ends): Promise<void> {
  if (state !== 'a store') return
  if ((await target.copiedFrom()) === sourceId)
    throw new SignalboxError(
      'copy_target_taken',
      'This source was copied to this target before, and that copy has ended. Compare them with --verify-only, or name an empty database to copy it again.',
    )
  throw new SignalboxError(
    'copy_target_taken',
    `The target is not empty: its table ${await target.firstFilled()} has rows that no copy from this source put there. Name an empty database.`,
  )
}

/** Throws if the schema is too old for the migrations of this version. */
async function statusOf(side: Side, url: string): Promise<MigrationStatus> {
  await using migrator = await openMigrator(url)
  const status = await migrator.status()
  if (!status.isBeforeBaseline) return status
  const { current, latest } = status
  throw new SignalboxError('schema_outdated', `The ${side} ${beforeBaseline}`, {
    details: { side, current, latest },
  })
}

/** Throws if program and database differ. The message says which of them to upgrade. */
function requireSchema(side: Side, schema: number, latest: number): void {
  const details = { side, current: schema, latest }
  if (schema === 0)
    throw new SignalboxError('schema_missing', `The ${side} has no Signalbox tables. Check its address.`, {
      details,
    })
  if (schema > latest)
    throw new SignalboxError(
      'schema_newer',
      `The ${side} has schema ${schema}, and this Signalbox knows only ${latest}. Upgrade Signalbox here, then copy.`,
      { details },
    )
  if (schema < latest)
    throw new SignalboxError(
      'schema_outdated',
      side === 'source'
        ? `The source has schema ${schema}, and this Signalbox needs ${latest}. Run \`signalbox migrate up\` on it, then copy.`
        : `Another version began the copy in the target, with schema ${schema}; this version needs ${latest}. Continue with that version, or start again with an empty database.`,
      { details },
    )
}

/** The plan of a copy. */
export interface CopyPlan {
  /** Whether it would continue a copy that an earlier run began. */
  readonly resumes: boolean
  readonly tables: readonly { readonly table: string; readonly rows: number }[]
  readonly rows: number
  readonly jobs: number
  /** A live lease in the source; a copy waits for its end, or refuses. */
  readonly held: readonly { readonly of: string; readonly holder: string; readonly restMs: number }[]
}

/** Reads both ends and changes nothing. */
export async function planCopy(from: string, to: string): Promise<CopyPlan> {
  await using kept = new AsyncDisposableStack()
  const ends = await openEnds(from, to, kept)
  await requireEmptyTarget(ends)
  const { source } = ends
  const look = kept.use(await source.look())
  const tables: { table: string; rows: number }[] = []
  for (const table of copyTables) tables.push({ table: table.name, rows: await look.count(table) })
  const held = await source.liveLeases()
  return {
    resumes: ends.state === 'begun',
    tables,
    rows: sum(tables),
    jobs: sum(tables.filter(({ table }) => table === 'job_queue' || table === 'job_history')),
    held: held.map(({ of, holder, restMs }) => ({ of, holder, restMs })),
  }
}

function sum(tables: readonly { readonly rows: number }[]): number {
  return tables.reduce((total, { rows }) => total + rows, 0)
}

/**
 * A copy carries no lease to the target: the target is a store without active work. So the copy waits until the leases
 * of dead workers expire, and refuses while a process renews or takes one. Then it reclaims expired jobs, as the next
 * worker would. A worker from before the copy has no lease in the target, so the target refuses its verdict.
 */
export async function makeQuiet(
  url: string,
  source: CopyEnd,
  { waitMs, onNews }: { readonly waitMs: number; readonly onNews: (news: CopyNews) => void },
): Promise<void> {
  await waitForLeases(source, waitMs, onNews)
  await takeBack(url, source)
}

/** Throws if a process works in the source now. */
export async function requireQuiet(source: CopyEnd): Promise<void> {
  const [lease] = await source.liveLeases()
  if (lease !== undefined) throw busy(lease, 'was taken after the copy began')
}

async function waitForLeases(
  source: CopyEnd,
  waitMs: number,
  onNews: (news: CopyNews) => void,
): Promise<void> {
  const deadline = performance.now() + waitMs
  let known: ReadonlyMap<string, number> | undefined
  for (;;) {
    const leases = await source.liveLeases()
    const [last] = leases
    if (last === undefined) return
    const renewed = leases.find(({ of, endsAt }) => known !== undefined && endsAt > (known.get(of) ?? 0))
    // Only the last twenty leases are read. So a lease that is new here may be old if there were twenty before.
    if (renewed !== undefined && known!.size < 20) throw busy(renewed, 'was taken or renewed just now')
    if (performance.now() + last.restMs > deadline) throw busy(last, `is held for another ${last.restMs} ms`)
    known = new Map(leases.map(({ of, endsAt }) => [of, endsAt]))
    onNews({ phase: 'waiting', leases: leases.length, restMs: last.restMs, of: last.of })
    await sleep(Math.min(1_000, last.restMs + 1))
  }
}

function busy({ of, holder, endsAt }: LiveLease, how: string): SignalboxError {
  return new SignalboxError(
    'copy_source_busy',
    `The source is still being worked: ${of} (${holder}) ${how}. Stop its servers and workers, then copy again. Leases of dead workers end by themselves (--wait sets how long the copy waits for them).`,
    { details: { of, holder, endsAt } },
  )
}

/** Reclaims expired jobs with the source's own store, as any worker would. */
async function takeBack(url: string, source: CopyEnd): Promise<void> {
  const namespaces = await source.runningNamespaces()
  const unwanted = await source.unwantedJobs()
  if (namespaces.length === 0 && unwanted.length === 0) return
  await using backend = await openBackend(url, { namespace: 'default', migrate: false })
  for (const namespace of namespaces) {
    const { jobs } = backend.within(namespace)
    for (;;) {
      const { ready, dead, cancelled } = await jobs.reclaim(1_000)
      if (ready + dead + cancelled === 0) break
    }
  }
  for (const { namespace, id } of unwanted) await backend.within(namespace).jobs.cancel(id)
  const [left] = await source.runningNamespaces()
  if (left !== undefined)
    throw new SignalboxError(
      'copy_source_busy',
      `The source is still being worked: a job of namespace "${left}" is held by an open transaction. Stop its servers and workers, then copy again.`,
    )
}
