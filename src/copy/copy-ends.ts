import { invalidArgument, SignalboxError } from '../core/errors.ts'
import {
  beforeBaseline,
  type CopyEnd,
  copyMark,
  copyTables,
  type MigrationStatus,
  openCopyEnd,
  openMigrator,
} from '../storage/index.ts'

/** Both ends of a copy, looked at before anything is changed. */
export interface Ends {
  readonly source: CopyEnd
  readonly target: CopyEnd
  readonly sourceId: string
  /** What the target is found to be. */
  readonly state: 'empty' | 'begun' | 'a store'
}

type Side = 'source' | 'target'

/** Opens both and refuses what no copy can begin with; what is refused is left as it is. */
export async function openEnds(from: string, to: string, kept: AsyncDisposableStack): Promise<Ends> {
  const source = kept.use(await openCopyEnd(from))
  const target = kept.use(await openCopyEnd(to))
  // Engines have steps of their own, so that each has its own latest.
  const ours = await statusOf('source', from)
  requireSchema('source', await source.schema(), ours.latest)
  if (ours.current === copyMark)
    throw new SignalboxError(
      'copy_unfinished',
      'The source is itself being filled by a copy that has not ended. End that first, then copy from it.',
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
  // What is empty and old is brought up to date by the copy; what is begun was begun by another version.
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

/** Throws unless there is something in the target to compare. */
export async function requireFilled({ target }: Ends, to: string): Promise<void> {
  const { latest } = await statusOf('target', to)
  requireSchema('target', await target.schema(), latest)
}

/** Throws unless a copy can begin or go on there. */
export async function requireRoom({ target, sourceId, state }: Ends): Promise<void> {
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

/** Throws where no version of today can read the schema. */
async function statusOf(side: Side, url: string): Promise<MigrationStatus> {
  await using migrator = await openMigrator(url)
  const status = await migrator.status()
  if (!status.isBeforeBaseline) return status
  const { current, latest } = status
  throw new SignalboxError('schema_outdated', `The ${side} ${beforeBaseline}`, {
    details: { side, current, latest },
  })
}

/** Says which of the two is behind, and what to upgrade: this program or that database. */
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
        : `The copy in the target was begun with schema ${schema}, by another version; this one needs ${latest}. Go on with that version, or begin again in an empty database.`,
      { details },
    )
}

/** What a copy would do. */
export interface CopyPlan {
  /** Whether it would go on with one that was begun. */
  readonly resumes: boolean
  readonly tables: readonly { readonly table: string; readonly rows: number }[]
  readonly rows: number
  readonly jobs: number
  /** What is held in the source now; a copy waits for it, or refuses. */
  readonly held: readonly { readonly of: string; readonly holder: string; readonly restMs: number }[]
}

/** Looks at both ends and changes nothing. */
export async function planCopy(from: string, to: string): Promise<CopyPlan> {
  await using kept = new AsyncDisposableStack()
  const ends = await openEnds(from, to, kept)
  await requireRoom(ends)
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
