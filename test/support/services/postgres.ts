import { join } from 'node:path'
import { Client } from 'pg'
import { serverAccount } from './account.ts'
import { binaryFolders, findTogether } from './binary.ts'
import { copyEmbeddedPostgres, findEmbeddedPostgres, restoreLinks } from './embedded.ts'
import { createFolder } from './folder.ts'
import { launch } from './launch.ts'
import { runProgram, startProgram } from './program.ts'
import type { Service, ServiceOptions } from './service.ts'
import { allowedSources, findSource, type Places } from './source.ts'

/** Either a running server, or the folder of the binaries to start one. */
type Found = { readonly url: string } | { readonly bin: string }

const places: Places<Found> = {
  environment: () => {
    const url = process.env.SIGNALBOX_TEST_POSTGRES_URL
    return url ? { url } : undefined
  },
  installed: () => {
    const bin = findTogether(['initdb', 'postgres'], binaryFolders(process.env))
    return bin === undefined ? undefined : { bin }
  },
  embedded: () => {
    const native = findEmbeddedPostgres()
    if (native === undefined) return undefined
    restoreLinks(native)
    return { bin: join(native, 'bin') }
  },
  otherwise:
    'no Postgres: set SIGNALBOX_TEST_POSTGRES_URL=postgres://user:password@host/database (the user may create databases), or install postgresql, or run `npm ci` without leaving out optional packages',
}

const quickSettings = ['-c', 'fsync=off', '-c', 'synchronous_commit=off', '-c', 'full_page_writes=off']

/** Finds or starts a Postgres. */
export async function startPostgres({ durable = false, env }: ServiceOptions = {}): Promise<Service> {
  const { from, found } = await findSource(places, allowedSources(process.env))
  if ('url' in found) {
    const { version } = await ask(found.url)
    return { name: 'postgres', url: found.url, version, from, async [Symbol.asyncDispose]() {} }
  }

  await using kept = new AsyncDisposableStack()
  const account = serverAccount(['postgres', 'nobody'])
  const folder = kept.use(createFolder('postgres', account))
  let bin = found.bin
  if (from === 'embedded' && !(await canRun(join(bin, 'initdb'), account))) {
    // The repository may be in a folder that the lent account cannot read, such as root's home.
    bin = join(copyEmbeddedPostgres(join(bin, '..'), kept.use(createFolder('postgres-binaries'))), 'bin')
  }

  await runProgram(
    join(bin, 'initdb'),
    ['-D', folder.path, '-U', 'postgres', '--auth=trust', '--no-sync', '-E', 'UTF8', '--locale=C'],
    { account },
  )
  const settings = ['-c', 'listen_addresses=127.0.0.1', '-c', 'max_connections=300']
  const start = (port: number) =>
    startProgram(
      join(bin, 'postgres'),
      ['-D', folder.path, '-p', `${port}`, '-k', folder.path, ...settings, ...(durable ? [] : quickSettings)],
      // The quickest end that still frees its shared memory; SIGKILL would leave that to the next reboot.
      { account, env, endSignal: 'SIGQUIT' },
    )
  return await launch(kept, {
    ...{ name: 'postgres', from, folder: folder.path, start, urlOf },
    ask: (url) => ask(url, folder.path),
  })
}

function urlOf(port: number): string {
  return `postgres://postgres@127.0.0.1:${port}/postgres`
}

async function canRun(command: string, account: ReturnType<typeof serverAccount>): Promise<boolean> {
  return runProgram(command, ['--version'], { account }).then(
    () => true,
    () => false,
  )
}

async function ask(url: string, folder?: string): Promise<{ version: string }> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
  // A server that is still starting may close the connection; the query's rejection reports it already.
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows } = await client.query(
      `SELECT current_setting('server_version') AS version, current_setting('data_directory', true) AS folder`,
    )
    if (folder !== undefined && rows[0].folder !== folder) throw new Error("another run's Postgres answered")
    return { version: rows[0].version }
  } finally {
    await client.end().catch(() => undefined)
  }
}
