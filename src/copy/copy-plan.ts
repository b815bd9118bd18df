import { copyTables } from '../storage/index.ts'
import { openEnds, requireRoom } from './copy-ends.ts'

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
