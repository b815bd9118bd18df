import { createClient } from '@redis/client'
import { binaryFolders, findBinary } from '../support/services/binary.ts'
import { createFolder } from '../support/services/folder.ts'
import { startProgram } from '../support/services/program.ts'
import { startOnFreePort } from '../support/services/ready.ts'
import { createRevivable, type Revivable } from '../support/services/revivable.ts'

/** A separate Redis that restarts with all confirmed writes, or with nothing. */
export interface KillableRedis extends Revivable {
  readonly url: string
}

const names = ['redis-server', 'valkey-server', 'redis-check-rdb']
const durable = ['--save', '', '--appendonly', 'yes', '--appendfsync', 'always']
const forgetful = ['--save', '', '--appendonly', 'no']

export async function startKillableRedis({ forgets }: { readonly forgets: boolean }): Promise<KillableRedis> {
  const settings = forgets ? forgetful : durable
  const folders = binaryFolders(process.env)
  const binary = names.map((name) => findBinary(name, folders)).find((path) => path !== undefined)
  if (binary === undefined) throw new Error(`there is no Redis to start: none of ${names.join(', ')}`)
  await using kept = new AsyncDisposableStack()
  const folder = kept.use(createFolder('redis-killable')).path
  const start = (port: number) =>
    startProgram(binary, ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, ...settings], {
      argv0: 'redis-server',
    })
  const { program, port } = await startOnFreePort(start, (port) => answers(port, folder))
  const revivable = kept.use(
    createRevivable(
      program,
      () => start(port),
      () => answers(port, folder),
    ),
  )
  const owned = kept.move()
  return {
    url: urlOf(port),
    crash: () => revivable.crash(),
    restart: () => revivable.restart(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function urlOf(port: number): string {
  return `redis://127.0.0.1:${port}`
}

async function answers(port: number, folder: string): Promise<void> {
  const client = createClient({
    url: urlOf(port),
    socket: { reconnectStrategy: false, connectTimeout: 5_000 },
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    if ((await client.configGet('dir')).dir !== folder) throw new Error("another run's Redis answered")
  } finally {
    client.destroy()
  }
}
