import { createClient } from '@redis/client'
import { aptInstall } from './apt.ts'
import { binaryFolders, findBinary } from './binary.ts'
import { createFolder } from './folder.ts'
import { startProgram } from './program.ts'
import { startOnFreePort } from './ready.ts'
import type { Service, ServiceOptions } from './service.ts'
import { allowedSources, findSource, type Places } from './source.ts'

/** Either a running server, or the binary to start one. */
type Found = { readonly url: string } | { readonly server: string }

const places: Places<Found> = {
  environment: () => {
    const url = process.env.SIGNALBOX_TEST_REDIS_URL
    return url ? { url } : undefined
  },
  installed: () => findInstalled(),
  // `redis-server` would also install and start a service of the machine; the tools bring the same binary alone.
  apt: async () => ((await aptInstall(['redis-tools'])) ? findInstalled() : undefined),
  otherwise:
    'no Redis: set SIGNALBOX_TEST_REDIS_URL=redis://host:port, or install redis-server, valkey-server or redis-tools',
}

/** Redis is one binary that acts by its name: redis-check-rdb, started as redis-server, is the server. */
function findInstalled(): Found | undefined {
  const folders = binaryFolders(process.env)
  for (const name of ['redis-server', 'valkey-server', 'redis-check-rdb']) {
    const server = findBinary(name, folders)
    if (server !== undefined) return { server }
  }
  return undefined
}

const durableSettings = ['--save', '', '--appendonly', 'yes', '--appendfsync', 'always']
const quickSettings = ['--save', '', '--appendonly', 'no']

/** Finds or starts a Redis. */
export async function startRedis({ durable = false }: ServiceOptions = {}): Promise<Service> {
  const { from, found } = await findSource(places, allowedSources(process.env))
  if ('url' in found) {
    const { version } = await ask(found.url)
    return { name: 'redis', url: found.url, version, from, async [Symbol.asyncDispose]() {} }
  }

  await using kept = new AsyncDisposableStack()
  const folder = kept.use(createFolder('redis'))
  const settings = [
    '--bind',
    '127.0.0.1',
    '--dir',
    folder.path,
    ...(durable ? durableSettings : quickSettings),
  ]
  const { program, port, answer } = await startOnFreePort(
    (port) => startProgram(found.server, ['--port', `${port}`, ...settings], { argv0: 'redis-server' }),
    (port) => ask(urlOf(port), folder.path),
  )
  kept.use(program)
  const owned = kept.move()
  return {
    name: 'redis',
    url: urlOf(port),
    version: answer.version,
    from,
    pid: program.pid,
    folder: folder.path,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function urlOf(port: number): string {
  return `redis://127.0.0.1:${port}`
}

async function ask(url: string, folder?: string): Promise<{ version: string }> {
  const client = createClient({ url, socket: { reconnectStrategy: false, connectTimeout: 5_000 } })
  client.on('error', () => undefined)
  try {
    await client.connect()
    if (folder !== undefined && (await client.configGet('dir')).dir !== folder) {
      throw new Error("another run's Redis answered")
    }
    const version = /^redis_version:(\S+)/m.exec(await client.info('server'))?.[1]
    return { version: version ?? 'unknown' }
  } finally {
    client.destroy()
  }
}
