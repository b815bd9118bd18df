import type { FleetPage, FleetStore, FleetWrite } from '../../dispatch/cluster/fleet-store.ts'
import { hashFleetKey } from '../sql/fleet-key.ts'
import { decodeFleetRow, type FleetReach, isFleetReset, type StoredFleetRow } from '../sql/fleet-row.ts'
import { begin, type Call, type Calls, commit, rowCount, type Statement } from './connection/calls.ts'
import { now, setNow } from './connection/clock.ts'
import { sendAll } from './connection/packets.ts'
import type { Store } from './engine-store.ts'
import { encodePrune, encodeWrite, lockBoard, noteVersion } from './fleet-writes.ts'

/** What the board works with; writers wait for each other on connections where nothing else does. */
export interface FleetParts extends Pick<Store, 'namespace' | 'tables' | 'calls' | 'packetBytes'> {
  readonly waitingCalls: Calls
}

/** The fleet's board on MariaDB: migrations/baseline-server.ts says how writers follow each other. */
export function createMariadbFleet(parts: FleetParts): FleetStore {
  const { namespace, tables, calls, waitingCalls } = parts
  return {
    read: (since, limit) => (since > 0 ? readOn(parts, since, limit) : readAnew(parts, limit, false)),
    find: (kind, key) =>
      calls.run('read the board', async (call) => {
        const [row] = await call.rows<StoredFleetRow>(
          `SELECT ${columns} FROM ${tables.fleet.row}
            WHERE namespace = ? AND kind = ? AND key_hash = ? AND removed_at IS NULL`,
          [namespace, kind, hashFleetKey(key)],
        )
        return row && decodeFleetRow(row)
      }),
    write: (writes) => write(parts, writes),
    prune: (limit, olderThanMs) =>
      waitingCalls.run('prune the board', async (call) => {
        const steps = [...lockBoard(parts), ...encodePrune(parts, limit, olderThanMs)]
        return rowCount((await call.packet([begin, ...steps, commit])).at(-2))
      }),
  }
}

/** Reads that all see the same state of the store, and one clock. */
async function snapshot(call: Call, reads: readonly Statement[]): Promise<readonly unknown[]> {
  const answers = await call.packet([
    ['SET TRANSACTION ISOLATION LEVEL REPEATABLE READ', []],
    ['START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY', []],
    setNow,
    ...reads,
    commit,
  ])
  return answers.slice(3, -1)
}

/** Up to `limit` namespaces that have nodes or tasks for nodes. */
export function listDispatched(
  { calls, tables }: Pick<Store, 'calls' | 'tables'>,
  limit: number,
): Promise<readonly string[]> {
  const { board, row } = tables.fleet
  return calls.run('read the boards', async (call) => {
    const rows = await call.rows<{ namespace: string }>(
      `SELECT namespace FROM ${board} board WHERE (
          SELECT 1 FROM ${row} FORCE INDEX (PRIMARY)
          WHERE namespace = board.namespace AND kind IN ('node', 'demand') AND removed_at IS NULL LIMIT 1) = 1
        ORDER BY namespace LIMIT ?`,
      [limit],
    )
    return rows.map(({ namespace }) => namespace)
  })
}

async function write(parts: FleetParts, writes: readonly FleetWrite[]): Promise<readonly (number | null)[]> {
  const { waitingCalls, packetBytes } = parts
  const lock = [begin, ...lockBoard(parts)]
  const steps = writes.map((one) => encodeWrite(parts, one))
  return waitingCalls.run('write to the board', async (call) => {
    const all = [...lock, ...steps.flat(), noteVersion(parts), commit]
    const answers = await sendAll(call, all, packetBytes)
    const [board] = answers[lock.length - 1] as [{ version: number | string }]
    let version = Number(board.version)
    let at = lock.length
    return steps.map((statements) => {
      const took = rowCount(answers[at]) > 0
      at += statements.length
      return took ? ++version : null
    })
  })
}

const columns = 'kind, row_key, version, doc, expires_at'

/** Goes on from where somebody was, if that is still possible. */
async function readOn(parts: FleetParts, since: number, limit: number): Promise<FleetPage> {
  const page = await parts.calls.run('read the board', async (call) => {
    const [[board], rows] = (await snapshot(call, [
      readReach(parts),
      readRows(parts, 'version > ?', [since], limit),
    ])) as [[ReachRow], StoredFleetRow[]]
    if (isFleetReset(since, decodeReach(board))) return undefined
    return { rows: rows.map(decodeFleetRow), now: Number(board.now), isReset: false }
  })
  return page ?? readAnew(parts, limit, true)
}

/** From below what was forgotten nobody could go on, so a page that starts at the beginning goes beyond it. */
function readAnew(parts: FleetParts, limit: number, isReset: boolean): Promise<FleetPage> {
  const forgotten = `COALESCE((SELECT forgotten FROM ${parts.tables.fleet.board} WHERE namespace = ?), 0)`
  const { namespace } = parts
  return parts.calls.run('read the board', async (call) => {
    const [[board], below, above] = (await snapshot(call, [
      readReach(parts),
      readRows(parts, `version <= ${forgotten}`, [namespace]),
      readRows(parts, `version > ${forgotten}`, [namespace], Math.max(1, limit)),
    ])) as [[ReachRow], StoredFleetRow[], StoredFleetRow[]]
    const most = below.length === 0 ? limit : Math.max(limit, below.length + 1)
    const rows = [...below, ...above].slice(0, most)
    return { rows: rows.map(decodeFleetRow), now: Number(board.now), isReset }
  })
}

function readRows(
  { tables, namespace }: FleetParts,
  where: string,
  values: readonly unknown[],
  limit?: number,
): Statement {
  return [
    `SELECT ${columns} FROM ${tables.fleet.row} FORCE INDEX (fleet_row_version) WHERE namespace = ? AND ${where}
      ORDER BY version${limit === undefined ? '' : ' LIMIT ?'}`,
    [namespace, ...values, ...(limit === undefined ? [] : [limit])],
  ]
}

interface ReachRow {
  readonly now: number | string
  readonly version: number | string | null
  readonly forgotten: number | string | null
}

/** One row, also where nothing was ever written. */
function readReach({ tables, namespace }: FleetParts): Statement {
  const sql = `SELECT ${now} AS now, MAX(version) AS version, MAX(forgotten) AS forgotten
      FROM ${tables.fleet.board} WHERE namespace = ?`
  return [sql, [namespace]]
}

function decodeReach({ version, forgotten }: ReachRow): FleetReach {
  return { version: Number(version ?? 0), forgotten: Number(forgotten ?? 0) }
}
