import { join } from 'node:path'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { serverAccount } from './account.ts'
import { aptInstall } from './apt.ts'
import { binaryFolders, findBinary } from './binary.ts'
import { createFolder } from './folder.ts'
import { launch } from './launch.ts'
import { runProgram, startProgram } from './program.ts'
import type { Service, ServiceOptions } from './service.ts'
import { allowedSources, findSource, type Places } from './source.ts'

/** Either a running server, or the binaries to start one. */
type Found = { readonly url: string } | { readonly server: string; readonly installDb: string }

const places: Places<Found> = {
  environment: () => {
    const url = process.env.SIGNALBOX_TEST_MYSQL_URL
    return url ? { url } : undefined
  },
  installed: () => findInstalled(),
  // The server's package has mariadb-install-db, but the client's package has the programs that it calls.
  apt: async () =>
    (await aptInstall(['mariadb-server-core', 'mariadb-client-core'])) ? findInstalled() : undefined,
  otherwise:
    'no MariaDB: set SIGNALBOX_TEST_MYSQL_URL=mysql://user:password@host/database (the user may create databases), or install mariadb-server-core and mariadb-client-core',
}

/** `mysqld` is ignored: it may be MySQL, which is another server. */
function findInstalled(): Found | undefined {
  const folders = binaryFolders(process.env)
  const server = findBinary('mariadbd', folders)
  const installDb = findBinary('mariadb-install-db', folders)
  const printDefaults = findBinary('my_print_defaults', folders)
  if (server === undefined || installDb === undefined || printDefaults === undefined) return undefined
  return { server, installDb }
}

const durableSettings = ['--innodb-flush-log-at-trx-commit=1', '--innodb-flush-method=fsync']
const quickSettings = ['--innodb-flush-log-at-trx-commit=0', '--innodb-flush-method=nosync']

/** Finds or starts a MariaDB. */
export async function startMariadb({ durable = false, env }: ServiceOptions = {}): Promise<Service> {
  const { from, found } = await findSource(places, allowedSources(process.env))
  if ('url' in found) {
    const { version } = await ask(found.url)
    return { name: 'mariadb', url: found.url, version, from, async [Symbol.asyncDispose]() {} }
  }

  await using kept = new AsyncDisposableStack()
  const account = serverAccount(['mysql', 'nobody'])
  const folder = kept.use(createFolder('mariadb', account))
  const data = join(folder.path, 'data')
  // One log size for both: a server that finds a log of another size would first rewrite it. And the folder for
  // temporary files too: the system's may not be open to a lent account.
  const settings = [
    '--no-defaults',
    `--datadir=${data}`,
    `--tmpdir=${folder.path}`,
    '--innodb-log-file-size=16M',
  ]

  await runProgram(
    found.installDb,
    [
      ...settings,
      '--innodb-flush-method=nosync',
      '--auth-root-authentication-method=normal',
      '--skip-test-db',
    ],
    { account },
  )
  const start = (port: number) =>
    startProgram(
      found.server,
      [
        ...settings,
        ...(durable ? durableSettings : quickSettings),
        '--bind-address=127.0.0.1',
        `--port=${port}`,
        `--socket=${join(folder.path, 'socket')}`,
        `--pid-file=${join(folder.path, 'pid')}`,
        '--skip-name-resolve',
        '--max-connections=300',
      ],
      { account, env },
    )
  return await launch(kept, {
    ...{ name: 'mariadb', from, folder: folder.path, start, urlOf },
    ask: (url) => ask(url, data),
  })
}

function urlOf(port: number): string {
  return `mysql://root@127.0.0.1:${port}/mysql`
}

async function ask(url: string, folder?: string): Promise<{ version: string }> {
  const connection = await createConnection({ uri: url, connectTimeout: 5_000 })
  try {
    const [rows] = await connection.query<RowDataPacket[]>('SELECT version() AS version, @@datadir AS folder')
    if (folder !== undefined && rows[0]?.folder !== `${folder}/`)
      throw new Error("another run's MariaDB answered")
    return { version: rows[0]?.version }
  } finally {
    await connection.end()
  }
}
