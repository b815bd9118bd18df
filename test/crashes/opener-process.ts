/**
 * Migrates a database to the next release's schema, opens it and prints how long that took; or is killed with -9 after
 * KILL_AFTER_MS. The killer is a thread: SQLite migrates without giving the main one a turn.
 *
 *   opener-process.ts URL [KILL_AFTER_MS]
 */
import { Worker } from 'node:worker_threads'
import { openBackend } from '../../src/storage/open.ts'
import { openNextMigrator } from '../support/next-release.ts'

const [url, killAfterMs] = process.argv.slice(2)
const killer = `
  const { parentPort, workerData } = require('node:worker_threads')
  parentPort.once('message', () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, workerData)
    process.kill(process.pid, 'SIGKILL')
  })
  parentPort.postMessage('ready')`
// Loaded beforehand, or most of the time and most of the kills would go to loading.
if (url!.startsWith('sqlite')) await import('../../src/storage/sqlite/index.ts')
else if (url!.startsWith('postgres')) await import('../../src/storage/postgres/index.ts')
else await import('../../src/storage/mariadb/index.ts')

if (killAfterMs !== undefined) {
  const thread = new Worker(killer, { eval: true, workerData: Number(killAfterMs) })
  await new Promise((resolve) => thread.once('message', resolve))
  thread.postMessage('go')
}
const begun = performance.now()
{
  await using migrator = openNextMigrator(url!)
  await migrator.up()
}
await using _backend = await openBackend(url!, { namespace: 'crashes', migrate: true })
console.log(performance.now() - begun)
