/**
 * The servers that a campaign of the jobs module runs on: its own, durable, and gone at its end. SQLite needs none. A
 * server that cannot be had fails the campaign; none is passed over in silence.
 */
import { createGround, type Ground, type SqlEngine } from '../../crashes/ground.ts'
import { type Service, startMariadb, startPostgres } from '../../support/services/index.ts'
import { type CampaignRequest, type CampaignResult, type Counts, inPieces } from '../campaign.ts'

/** An engine, ready to make databases on. */
export interface Engine {
  readonly name: SqlEngine
  readonly server: Service | undefined
  createGround(): Promise<Ground>
}

export const allEngines: readonly SqlEngine[] = ['sqlite', 'postgres', 'mariadb']
export const serverEngines: readonly SqlEngine[] = ['postgres', 'mariadb']

/** Runs each piece on each engine in turn, and counts by engine. */
export async function onEngines(
  request: CampaignRequest,
  names: readonly SqlEngine[],
  piece: (engine: Engine, seed: number) => Promise<Counts>,
): Promise<CampaignResult> {
  await using kept = new AsyncDisposableStack()
  const engines: Engine[] = []
  const notes: string[] = []
  for (const name of names) {
    const server = await startServer(name)
    if (server !== undefined) kept.use(server)
    engines.push({ name, server, createGround: () => createGround(name, server?.url) })
    notes.push(`- ${name}: ${server === undefined ? 'in the process' : `${server.version}, ${server.from}`}`)
  }
  const counts = await inPieces(request, async (seed) => {
    const total: Record<string, number> = {}
    for (const engine of engines) {
      request.progress(`seed ${seed}, ${engine.name}`)
      for (const [what, count] of Object.entries(await piece(engine, seed)))
        total[`${engine.name} ${what}`] = count
    }
    return total
  })
  return { counts, notes }
}

async function startServer(name: SqlEngine): Promise<Service | undefined> {
  if (name === 'sqlite') return undefined
  return (name === 'postgres' ? startPostgres : startMariadb)({ durable: true })
}
