/**
 * The stores that a campaign of the locks module runs on: a SQLite file, and new servers, durable and gone at its
 * end. A server that cannot be had fails the campaign; none is passed over in silence.
 */
import { randomBytes } from 'node:crypto'
import { createGround } from '../../crashes/ground.ts'
import { type Service, startMariadb, startPostgres, startRedis } from '../../support/services/index.ts'
import { type CampaignRequest, type CampaignResult, type Counts, inPieces } from '../campaign.ts'

/** An unshared store. */
export interface LocksGround extends AsyncDisposable {
  readonly engine: string
  readonly url: string
  readonly namespace: string
}

const starters = { postgres: startPostgres, mariadb: startMariadb, redis: startRedis } as const
const engines = ['sqlite', 'postgres', 'mariadb', 'redis'] as const

/** Runs each piece on each engine in turn, and counts by engine. */
export async function onLockEngines(
  request: CampaignRequest,
  piece: (ground: LocksGround, seed: number) => Promise<Counts>,
): Promise<CampaignResult> {
  await using kept = new AsyncDisposableStack()
  const servers = new Map<string, Service>()
  const notes: string[] = ['- sqlite: in the process']
  for (const [name, start] of Object.entries(starters)) {
    const server = kept.use(await start({ durable: true }))
    servers.set(name, server)
    notes.push(`- ${name}: ${server.version}, ${server.from}`)
  }
  const counts = await inPieces(request, async (seed) => {
    const total: Record<string, number> = {}
    for (const engine of engines) {
      request.progress(`seed ${seed}, ${engine}`)
      await using ground = await groundOn(engine, servers.get(engine)?.url)
      for (const [what, count] of Object.entries(await piece(ground, seed)))
        total[`${engine} ${what}`] = count
    }
    return total
  })
  return { counts, notes }
}

async function groundOn(engine: (typeof engines)[number], server: string | undefined): Promise<LocksGround> {
  const namespace = `soak-${randomBytes(6).toString('hex')}`
  if (engine === 'redis') return { engine, url: server!, namespace, async [Symbol.asyncDispose]() {} }
  const ground = await createGround(engine, server)
  return { engine, url: ground.url, namespace, [Symbol.asyncDispose]: () => ground[Symbol.asyncDispose]() }
}
