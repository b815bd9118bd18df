/** The servers, nodes and the Redis of a killing campaign: each can be killed with -9 and is started again. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Program } from '../../support/services/program.ts'
import { createCrew } from '../crew.ts'
import { monotonicMs } from '../event-log.ts'
import { startKillableRedis } from '../killable-redis.ts'
import type { Random } from '../random.ts'
import type { Blow, DispatchNodeOptions, DispatchServerOptions, Slots } from './dispatch-plan.ts'

export interface DispatchFleet extends AsyncDisposable {
  readonly urls: readonly string[]
  readonly nodes: readonly FleetMember[]
  readonly blows: readonly Blow[]
  readonly accidents: readonly string[]
  /** Each comes back after so long; resolves when it has. */
  killServer(index: number, awayMs: number): Promise<void>
  killNode(index: number, awayMs: number): Promise<void>
  killRedis(awayMs: number): Promise<void>
  /** Asks all to leave; one that stays counts as an accident. */
  leave(): Promise<void>
}

export interface FleetMember {
  readonly nodeId: string
  readonly instance: string
  readonly slots: Slots
}

export interface DispatchFleetOptions {
  readonly url: string
  readonly folder: string
  readonly nodeCount: number
  /** Redis comes back with nothing. */
  readonly forgets: boolean
  readonly random: Random
}

const serverScript = join(import.meta.dirname, 'server-process.ts')
const nodeScript = join(import.meta.dirname, 'node-process.ts')
const serverNames = ['east', 'west'] as const

export async function startDispatchFleet(options: DispatchFleetOptions): Promise<DispatchFleet> {
  const { url, folder, nodeCount, forgets, random } = options
  await using kept = new AsyncDisposableStack()
  const redis = kept.use(await startKillableRedis({ forgets }))
  const crew = kept.use(createCrew())
  const blows: Blow[] = []

  const startServer = (port: number) =>
    crew.start(serverScript, { url, redis: redis.url, port } satisfies DispatchServerOptions)
  const servers = await Promise.all(serverNames.map(() => startServer(0)))
  const urls = servers.map((server) => /ready (\S+)/.exec(server.tail())![1]!)

  const startNode = (member: FleetMember) =>
    crew.start(nodeScript, { ...member, urls, folder } satisfies DispatchNodeOptions)
  const members: FleetMember[] = Array.from({ length: nodeCount }, (_, index) => ({
    nodeId: `n${index}`,
    instance: `n${index}.0`,
    slots: { asr: random.whole(1, 3), nmt: random.whole(1, 3) },
  }))
  const nodes: Program[] = await Promise.all(members.map(startNode))

  /** Kills, waits, and starts again. */
  async function blow(
    of: Pick<Blow, 'kind' | 'name'>,
    awayMs: number,
    kill: () => Promise<void>,
    start: () => Promise<unknown>,
  ): Promise<void> {
    // Before it is dead: afterwards would take from what is allowed.
    const t = monotonicMs()
    await kill()
    await sleep(awayMs)
    await start()
    blows.push({ ...of, t, backAt: monotonicMs() })
  }

  const owned = kept.move()
  return {
    urls,
    nodes: members,
    blows,
    accidents: crew.accidents,
    killServer: (index, awayMs) =>
      blow(
        { kind: 'server', name: serverNames[index]! },
        awayMs,
        () => crew.kill(servers[index]!),
        async () => {
          servers[index] = await startServer(Number(new URL(urls[index]!).port))
        },
      ),
    killNode: (index, awayMs) => {
      const { instance, ...member } = members[index]!
      const life = Number(instance.split('.')[1]) + 1
      return blow(
        { kind: 'node', name: instance },
        awayMs,
        () => crew.kill(nodes[index]!),
        async () => {
          members[index] = { ...member, instance: `${member.nodeId}.${life}` }
          nodes[index] = await startNode(members[index])
        },
      )
    },
    killRedis: (awayMs) =>
      blow(
        { kind: 'redis', name: 'redis' },
        awayMs,
        () => redis.crash(),
        () => redis.restart(),
      ),
    async leave() {
      await Promise.all(nodes.map((node) => crew.stop(node)))
      await Promise.all(servers.map((server) => crew.stop(server)))
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
