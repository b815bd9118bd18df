/** The processor time of processes on this machine, as Linux counts it: in hundredths of a second, all threads together. */
import { readdirSync, readFileSync } from 'node:fs'
import { Client } from 'pg'

const tickMs = 10

interface Spent {
  readonly parent: number
  readonly ownMs: number
  /** Of children that have ended. */
  readonly endedMs: number
}

function spentBy(pid: number): Spent | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // A name may have spaces and brackets in it.
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [parent, own, system, ended, endedSystem] = [1, 11, 12, 13, 14].map((at) => fields[at]!)
    return { parent: parent!, ownMs: (own! + system!) * tickMs, endedMs: (ended! + endedSystem!) * tickMs }
  } catch {
    // It has ended between two looks.
    return undefined
  }
}

/** That of a process. */
export function cpuMsOf(pid: number): number {
  return spentBy(pid)?.ownMs ?? 0
}

/** That of a process and all that it started. */
export function cpuMsOfFamily(pid: number): number {
  const head = spentBy(pid)
  if (head === undefined) throw new Error(`there is no process ${pid} on this machine`)
  const others = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const children = others.map((name) => spentBy(Number(name))).filter((spent) => spent?.parent === pid)
  return head.ownMs + head.endedMs + children.reduce((sum, child) => sum + child!.ownMs, 0)
}

/** The processes of a Postgres, which must be on this machine. */
export interface PostgresProcesses {
  /** It started all others. */
  readonly postmaster: number
  /** The time of those behind all connections to this database that have that name. */
  cpuMsFor(applicationName: string): Promise<number>
}

export async function postgresProcesses(url: string): Promise<PostgresProcesses> {
  /** Looks at what it finds while its own is there. */
  async function found<Seen>(
    which: string,
    values: readonly string[],
    look: (pids: readonly number[]) => Seen,
  ): Promise<Seen> {
    const client = new Client(url)
    await client.connect()
    try {
      const sql = `SELECT pid FROM pg_stat_activity WHERE ${which}`
      const { rows } = await client.query<{ pid: number }>(sql, [...values])
      return look(rows.map(({ pid }) => pid))
    } finally {
      await client.end()
    }
  }
  const postmaster = await found('pid = pg_backend_pid()', [], ([own]) => spentBy(own!)?.parent)
  if (postmaster === undefined)
    throw new Error('this Postgres is on another machine: its time cannot be read')
  return {
    postmaster,
    cpuMsFor: (applicationName) =>
      found('datname = current_database() AND application_name = $1', [applicationName], (pids) =>
        pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0),
      ),
  }
}
