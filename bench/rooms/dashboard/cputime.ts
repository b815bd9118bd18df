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

/** The process that started all others of this Postgres; it must be on this machine. */
export async function postmasterOf(url: string): Promise<number> {
  const client = new Client(url)
  await client.connect()
  try {
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    const backend = spentBy(rows[0]!.pid)
    if (backend === undefined) throw new Error('this Postgres is on another machine: its time cannot be read')
    return backend.parent
  } finally {
    await client.end()
  }
}
